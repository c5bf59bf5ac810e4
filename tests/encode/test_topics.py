"""Topic names: legal for Kafka, plain where possible, and never accidentally the same for two tables."""

import re
from collections.abc import Iterable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pgrelay.encode.topics import MAX_LENGTH, Topics, escape
from pgrelay.errors import SetupError

DEFAULT = "{prefix}.{schema}.{table}"
# Kafka's own rule (org.apache.kafka.common.internals.Topic).
LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def fits(identifier: str) -> bool:
    """Whether Postgres allows it: 1 to 63 bytes."""
    return 0 < len(identifier.encode("utf-8", "surrogateescape")) <= 63


# Names easily confused with the template or the escapes, then any names, then names that are not UTF-8.
tricky = st.text(st.sampled_from("ab._-2e \"'"), min_size=1, max_size=12)
anything = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=63)
not_utf8 = st.binary(min_size=1, max_size=63).map(
    lambda raw: raw.replace(b"\0", b"0").decode("utf-8", "surrogateescape")
)
identifiers = st.one_of(tricky, anything, not_utf8).filter(fits)
plain = st.text(
    st.sampled_from("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"),
    min_size=1,
    max_size=63,
)
tables = st.tuples(identifiers, identifiers)


def topic(schema: str, table: str, template: str = DEFAULT) -> str:
    return Topics("app", template).claim(schema, table)


def topics_of(
    tables: Iterable[tuple[str, str]], template: str = DEFAULT, *routes: tuple[str, str]
) -> list[str]:
    topics = Topics("app", template, routes)
    return [topics.claim(schema, table) for schema, table in tables]


def collision_key(topic: str) -> str:
    return topic.replace(".", "_")


# --- Names


@given(plain, plain)
def test_plain_names_stay_as_they_are(schema: str, table: str) -> None:
    assert topic(schema, table) == f"app.{schema}.{table}"


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("a b", "app.public.a..20..b"),
        ("a.b", "app.public.a..2e..b"),
        (" ", "app.public...20.."),
        ('"quoted"', "app.public...22..quoted..22.."),
        ("müll", "app.public.m..c3bc..ll"),
        ("注文", "app.public...e6b3a8e69687.."),
        ("a\udcffb", "app.public.a..ff..b"),
        ("2e", "app.public.2e"),
        ("..2e..", "app.public...2e2e..2e..2e2e.."),
    ],
)
def test_other_characters_are_written_as_their_bytes(table: str, name: str) -> None:
    assert topic("public", table) == name


@given(tables)
def test_every_topic_is_legal_for_kafka(pair: tuple[str, str]) -> None:
    assert LEGAL.fullmatch(topic(*pair))


@given(tables)
def test_a_table_always_has_the_same_topic(pair: tuple[str, str]) -> None:
    first, second = topics_of([pair, pair])
    assert first == second == topic(*pair)


# --- Two tables, two topics


@given(tables, tables)
def test_two_tables_never_share_a_topic(one: tuple[str, str], other: tuple[str, str]) -> None:
    assume(one != other)
    first, second = topic(*one), topic(*other)
    assert first != second
    if collision_key(first) == collision_key(second):
        with pytest.raises(SetupError):
            topics_of([one, other])
    else:
        assert topics_of([one, other]) == [first, second]


@given(identifiers, identifiers)
def test_an_escaped_identifier_can_be_read_back(one: str, other: str) -> None:
    assume(one != other)
    assert escape(one) != escape(other)
    assert "." not in re.sub(r"\.\.[0-9a-f]+\.\.", "", escape(one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a.b", "c"), ("a", "b.c")),
        (("a ", "b"), ("a", " b")),
        (("a b", "c"), ("a", "b c")),
        (("a", "b"), ("A", "b")),
        (("a", "b"), ("a", '"b"')),
        (("é", "b"), ("e\u0301", "b")),
    ],
    ids=str,
)
def test_tables_with_similar_names_have_different_topics(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    first, second = topics_of([one, other])
    assert collision_key(first) != collision_key(second)


# --- Long names


def test_the_longest_plain_names_fit() -> None:
    assert topic("s" * 63, "t" * 63) == f"app.{'s' * 63}.{'t' * 63}"


def test_a_name_longer_than_249_characters_ends_in_a_digest() -> None:
    schema = "é" * 31
    room = MAX_LENGTH - len(topic(schema, ""))
    longest = topic(schema, "y" * room)
    assert len(longest) == MAX_LENGTH
    assert longest.endswith("yyy")
    longer = topic(schema, "y" * (room + 1))
    assert len(longer) == MAX_LENGTH
    assert re.fullmatch(r"app\.\.\.(c3a9){31}\.\.\.y+\.\.h[0-9a-f]{32}", longer)


def test_long_names_that_differ_only_at_the_end_stay_different() -> None:
    tables = [("é" * 31, "é" * 30 + end) for end in "éèê"]
    assert len({*topics_of(tables)}) == 3


def test_long_prefixes_are_shortened_too() -> None:
    topics = Topics("p" * 300, DEFAULT)
    for name in (topics.message, topics.schema, topics.transaction, topics.claim("public", "orders")):
        assert LEGAL.fullmatch(name)


# --- Topics that Kafka takes for the same


def refusal(tables: list[tuple[str, str]], template: str = DEFAULT, *routes: tuple[str, str]) -> str:
    """The part of the error that names the tables that would share a topic, and the topic."""
    with pytest.raises(SetupError) as caught:
        topics_of(tables, template, *routes)
    named, cure = str(caught.value).split("; ")
    assert cure == "use records.routes to send one of them elsewhere, or both to one topic by one route"
    return named


def test_topics_that_differ_only_in_dot_and_underscore_are_refused() -> None:
    assert refusal([("a_b", "c"), ("a", "b_c")]) == (
        "table a.b_c and table a_b.c would need the topics 'app.a.b_c' and 'app.a_b.c', "
        "which Kafka takes for one ('.' counts as '_')"
    )


def test_tables_that_a_template_does_not_distinguish_are_refused() -> None:
    assert refusal([("a_b", "c"), ("a", "b_c")], "{prefix}.{schema}_{table}") == (
        "table a.b_c and table a_b.c would share the topic 'app.a_b_c'"
    )


def test_a_name_that_imitates_an_escape_is_refused() -> None:
    assert refusal([("a.b", "c"), ("a__2e__b", "c")]) == (
        "table a__2e__b.c and table a.b.c would need the topics 'app.a__2e__b.c' and 'app.a..2e..b.c', "
        "which Kafka takes for one ('.' counts as '_')"
    )


def test_tables_with_the_same_escaped_name_are_refused() -> None:
    """Schema `a._2e_`, table `c`, and schema `a`, table `_2e_.c`."""
    assert refusal([("a._2e_", "c"), ("a", "_2e_.c")]) == (
        "table a._2e_.c and table a._2e_.c would need the topics 'app.a._2e_..2e..c' and "
        "'app.a..2e.._2e_.c', which Kafka takes for one ('.' counts as '_')"
    )


def test_without_the_schema_in_the_template_equal_table_names_collide() -> None:
    assert topics_of([("public", "orders")], "{prefix}.{table}") == ["app.orders"]
    assert refusal([("public", "orders"), ("sales", "orders")], "{prefix}.{table}") == (
        "table sales.orders and table public.orders would share the topic 'app.orders'"
    )


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("message", "logical messages"),
        ("schema", "the schemas"),
        ("transaction", "the transactions"),
        ("offsets", "the offsets"),
    ],
)
def test_a_table_may_not_have_one_of_our_own_topics(name: str, owner: str) -> None:
    assert getattr(Topics("app", DEFAULT), name) == f"app.{name}"
    assert refusal([("public", name)], "{prefix}.{table}") == (
        f"table public.{name} and {owner} would share the topic 'app.{name}'"
    )


# --- Routes


def test_tables_of_a_route_may_share_a_topic() -> None:
    tables = [("public", "orders_2024"), ("public", "orders_2025"), ("public", "items")]
    routed = topics_of(tables, DEFAULT, (r"public\.orders_.*", "{prefix}.orders"))
    assert routed == ["app.orders", "app.orders", "app.public.items"]


def test_the_first_route_that_matches_the_whole_name_decides() -> None:
    routes = (("orders", "{prefix}.never"), (r"public\.orders", "{prefix}.first"), (".*", "{prefix}.rest"))
    assert topics_of([("public", "orders"), ("x", "orders")], DEFAULT, *routes) == ["app.first", "app.rest"]


def test_a_route_may_name_schema_and_table() -> None:
    assert topics_of([("a.b", "c")], DEFAULT, (".*", "x.{schema}-{table}")) == ["x.a..2e..b-c"]


def test_a_table_outside_a_route_may_not_share_its_topic() -> None:
    tables = [("public", "orders"), ("app", "orders")]
    assert refusal(tables, "{schema}.{table}", (r"public\..*", "app.orders")) == (
        "table app.orders and table public.orders would share the topic 'app.orders'"
    )


def test_two_routes_may_not_share_a_topic() -> None:
    assert refusal([("a", "x"), ("b", "x")], DEFAULT, (r"a\..*", "app.x"), (r"b\..*", "app.x")) == (
        "table b.x and table a.x would share the topic 'app.x'"
    )


def test_tables_of_a_route_may_not_have_topics_that_kafka_confuses() -> None:
    """They don't share a topic, but need two that can't both exist."""
    assert refusal([("a_b", "c"), ("a", "b_c")], DEFAULT, (".*", DEFAULT)) == (
        "table a.b_c and table a_b.c would need the topics 'app.a.b_c' and 'app.a_b.c', "
        "which Kafka takes for one ('.' counts as '_')"
    )
