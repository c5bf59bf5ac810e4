"""Avro names: legal for every identifier, unchanged if plain, and never the same for two."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.encode.avro.names import avro_name, avro_namespace, utf8_safe

LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Letters from which names can be made that look like escapes.
TRICKY = st.text("_x09af 5é.", min_size=1, max_size=12)


def read_back(name: str) -> str:
    """The identifier that a legal name was made from."""
    return re.sub(r"_x((?:[0-9a-f]{2})+)_", lambda match: bytes.fromhex(match[1]).decode(), name)


@pytest.mark.parametrize("name", ["id", "Order_2", "_x", "_", "tax_xa", "_x2", "max_x", "_xg0_"])
def test_a_plain_name_stays_as_it_is(name: str) -> None:
    assert avro_name(name) == name


@pytest.mark.parametrize(
    ("identifier", "name"),
    [
        ("a b", "a_x20_b"),
        ("a.b", "a_x2e_b"),
        ("2nd", "_x32_nd"),
        ("naïve", "na_xc3af_ve"),
        ("--", "_x2d2d_"),
        ("a_x20_b", "a_x5f78_20_b"),
        ("a\udcff", "a_xff_"),
    ],
)
def test_any_other_name_is_escaped(identifier: str, name: str) -> None:
    assert avro_name(identifier) == name


@given(st.one_of(TRICKY, st.text(min_size=1)))
def test_every_name_is_legal_and_can_be_read_back(identifier: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in identifier):
        return
    name = avro_name(identifier)
    assert LEGAL.fullmatch(name)
    assert read_back(name) == identifier


@given(TRICKY, TRICKY)
def test_two_identifiers_never_give_the_same_name(one: str, other: str) -> None:
    assert (avro_name(one) == avro_name(other)) == (one == other)


@pytest.mark.parametrize(
    ("topic", "name"),
    [("app.public.orders", "app.public.orders"), ("my-app.1", "my_x2d_app._x31_"), ("a..b", "a._x2e_.b")],
)
def test_the_dots_of_a_topic_stay_in_its_namespace(topic: str, name: str) -> None:
    assert avro_namespace(topic) == name


def test_bytes_that_are_not_utf8_are_shown_escaped() -> None:
    assert utf8_safe("caf\udce9") == "caf\\xe9"
