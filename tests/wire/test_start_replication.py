"""The START_REPLICATION command: its options, and names that the server reads as they were meant."""

import re
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.lsn import parse_lsn
from pgrelay.wire.replication import StreamOptions, quote_identifier, quote_literal, start_replication

PLAIN = StreamOptions(proto_version=1, publications=("shop",))


def test_the_command_without_options() -> None:
    assert start_replication("relay", 0, PLAIN) == (
        """START_REPLICATION SLOT "relay" LOGICAL 0/0 (proto_version '1', publication_names '"shop"')"""
    )


def test_the_command_with_every_option() -> None:
    options = StreamOptions(
        proto_version=4,
        publications=("shop", "stock"),
        binary=True,
        messages=True,
        streaming="parallel",
        two_phase=True,
        origin="none",
    )
    assert start_replication("relay", parse_lsn("16/B374D848"), options) == (
        'START_REPLICATION SLOT "relay" LOGICAL 16/B374D848 ('
        """proto_version '4', publication_names '"shop","stock"', binary 'true', messages 'true', """
        "streaming 'parallel', two_phase 'on', origin 'none')"
    )


OPTIONS: dict[str, tuple[StreamOptions, list[tuple[str, str]]]] = {
    "binary": (StreamOptions(1, ("shop",), binary=True), [("binary", "true")]),
    "messages": (StreamOptions(1, ("shop",), messages=True), [("messages", "true")]),
    "streaming": (StreamOptions(1, ("shop",), streaming="on"), [("streaming", "on")]),
    "two_phase": (StreamOptions(1, ("shop",), two_phase=True), [("two_phase", "on")]),
    "origin": (StreamOptions(1, ("shop",), origin="any"), [("origin", "any")]),
}


@pytest.mark.parametrize(("options", "added"), OPTIONS.values(), ids=OPTIONS.keys())
def test_each_option_adds_only_itself(options: StreamOptions, added: list[tuple[str, str]]) -> None:
    """An older server refuses any option that it does not know, even one that is off."""
    assert options.pairs() == PLAIN.pairs() + added


def test_every_option_is_tested() -> None:
    assert {field.name for field in fields(StreamOptions)} == {"proto_version", "publications", *OPTIONS}


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_the_protocol_version_is_the_first_option(version: int) -> None:
    assert StreamOptions(version, ("shop",)).pairs()[0] == ("proto_version", str(version))


@pytest.mark.parametrize(
    ("publications", "sent"),
    [
        (("shop",), "'\"shop\"'"),
        (("Shop",), "'\"Shop\"'"),
        (("my shop",), "'\"my shop\"'"),
        (("a,b", "c"), '\'"a,b","c"\''),
        (('say "hi"',), '\'"say ""hi"""\''),
        (("it's",), "'\"it''s\"'"),
        (("back\\slash",), "'\"back\\slash\"'"),
        (("préférées",), "'\"préférées\"'"),
    ],
    ids=["plain", "upper case", "space", "comma", "double quote", "single quote", "backslash", "accent"],
)
def test_publication_names_are_quoted_twice(publications: tuple[str, ...], sent: str) -> None:
    """As identifiers, since the server parses the list as such; then the whole list as a literal."""
    command = start_replication("relay", 0, StreamOptions(1, publications))
    assert command.endswith(f"(proto_version '1', publication_names {sent})")


def test_a_slot_name_is_quoted_as_an_identifier() -> None:
    assert start_replication('odd "slot"', 0, PLAIN).startswith(
        'START_REPLICATION SLOT "odd ""slot""" LOGICAL 0/0 '
    )


names = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=63)


@given(st.lists(names, min_size=1, max_size=4))
def test_the_server_reads_the_publication_names_that_were_meant(publications: list[str]) -> None:
    listed = dict(StreamOptions(1, tuple(publications)).pairs())["publication_names"]
    assert split_identifiers(unquote_literal(quote_literal(listed))) == publications


@given(names)
def test_the_server_reads_the_slot_name_that_was_meant(slot: str) -> None:
    assert split_identifiers(quote_identifier(slot)) == [slot]


def unquote_literal(literal: str) -> str:
    """As repl_scanner.l does: a quote inside is doubled, and nothing else is special."""
    match = re.fullmatch(r"'((?:[^']|'')*)'", literal)
    assert match is not None, literal
    return match[1].replace("''", "'")


def split_identifiers(listed: str) -> list[str]:
    """As SplitIdentifierString does with quoted names: a quote inside is doubled, commas separate them."""
    name = r'"((?:[^"]|"")+)"'
    assert re.fullmatch(f"{name}(,{name})*", listed), listed
    return [found.replace('""', '"') for found in re.findall(name, listed)]
