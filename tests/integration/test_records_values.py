"""Values that need a real server: TOAST, COPY, truncates, user-defined types, and session settings."""

from typing import Any

import pytest

from tests.integration.changes import changes, created, deleted, updated
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.relays import Relay
from tests.integration.servers import on_full_versions

_BIG = "x" * 20_000


def _make_toasted(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, big text, note text, large text)")
    database.execute("ALTER TABLE t ALTER big SET STORAGE EXTERNAL, ALTER large SET STORAGE EXTERNAL")
    database.execute(f"INSERT INTO t VALUES (1, '{_BIG}', 'x', '{_BIG}')")


@on_full_versions
def test_an_unchanged_toast_value_is_absent_and_listed(database: Database, relay: Relay) -> None:
    _make_toasted(database)
    database.execute("UPDATE t SET note = 'y'")
    database.execute("UPDATE t SET id = 2, large = NULL")
    database.execute("UPDATE t SET big = 'small'")
    relay.caught_up()
    records = relay.records("t")
    assert changes(records) == [
        created({"id": 1}, {"id": 1, "big": _BIG, "note": "x", "large": _BIG}),
        updated({"id": 1}, {"id": 1, "note": "y"}),
        *deleted({"id": 1}, {"id": 1}),
        created({"id": 2}, {"id": 2, "note": "y", "large": None}),
        updated({"id": 2}, {"id": 2, "big": "small", "note": "y", "large": None}),
    ]
    unchanged = [record.json.get("unchanged") for record in records if record.value]
    assert unchanged == [None, ["big", "large"], None, ["big"], None]


def test_an_unchanged_toast_value_can_have_a_placeholder(database: Database, new_relay: NewRelay) -> None:
    relay = new_relay(records={"unchanged": "placeholder"}).start().wait_streaming()
    _make_toasted(database)
    database.execute("UPDATE t SET note = 'y', large = NULL")
    relay.caught_up()
    _, record = relay.records("t")
    assert record.json["after"] == {
        "id": 1,
        "big": "__debezium_unavailable_value",
        "note": "y",
        "large": None,
    }
    assert "unchanged" not in record.json


@on_full_versions
def test_the_old_row_fills_in_unchanged_values(database: Database, relay: Relay) -> None:
    _make_toasted(database)
    database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    database.execute("UPDATE t SET note = 'y', large = NULL")
    database.execute("UPDATE t SET id = 2")
    relay.caught_up()
    records = relay.records("t")
    first = {"id": 1, "big": _BIG, "note": "x", "large": _BIG}
    second = {"id": 1, "big": _BIG, "note": "y", "large": None}
    assert changes(records) == [
        created({"id": 1}, first),
        updated({"id": 1}, second, before=first),
        *deleted({"id": 1}, second),
        created({"id": 2}, second | {"id": 2}),
    ]
    assert not any("unchanged" in record.json for record in records if record.value)


@on_full_versions
def test_every_row_of_a_copy_is_relayed_and_ordered_by_seq(database: Database, relay: Relay) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with database.connect() as connection, connection.cursor().copy("COPY t FROM STDIN") as copy:
        for number in range(1000):
            copy.write_row([number])
    relay.caught_up()
    sources = [(record.json["after"]["id"], record.json["source"]) for record in relay.records("t")]
    assert [number for number, _ in sources] == list(range(1000))
    assert [source["seq"] for _, source in sources] == list(range(1000))
    assert len({source["commit_lsn"] for _, source in sources}) == 1
    # So `lsn` alone would not distinguish them.
    assert len({source["lsn"] for _, source in sources}) < 1000


@on_full_versions
def test_a_truncate_is_in_every_partition_of_every_table(database: Database, new_relay: NewRelay) -> None:
    relay = new_relay(sink={"partitions": 3}).start().wait_streaming()
    database.execute("CREATE TABLE parent (id int PRIMARY KEY)")
    database.execute("CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent)")
    database.execute("BEGIN; INSERT INTO parent VALUES (1); TRUNCATE parent CASCADE; COMMIT")
    relay.caught_up()
    truncates = {
        table: [record for record in relay.records(table) if record.json["op"] == "t"]
        for table in ("parent", "child")
    }
    for seq, records in enumerate(truncates.values(), start=1):
        assert sorted(record.partition for record in records) == [0, 1, 2]
        assert {record.json["source"]["seq"] for record in records} == {seq}
        assert changes(records) == 3 * [("t", None, None, None)]
        for record in records:
            assert record.json["truncate"] == {"cascade": True, "restart_identity": False}


# Declaration, value as SQL, value in the record.
_OWN_TYPES = [
    ("whole", "7", 7),
    ("positive", "7", 7),
    ("price", "1.5", "1.50"),
    ("mood", "'glad'", "glad"),
    ("mood[]", "'{glad,NULL,\"so so\"}'", ["glad", None, "so so"]),
    ("mood[]", "'{{glad},{sad}}'", [["glad"], ["sad"]]),
    ("positive[]", "'{1,2}'", [1, 2]),
    ("price[]", "'{1.5,NULL}'", ["1.50", None]),
    ("moods", "'{sad}'", ["sad"]),
    ("pair", '\'(1,"a ""b")\'', '(1,"a ""b")'),
    ("pair[]", "'{\"(1,a)\",NULL}'", ["(1,a)", None]),
    ("span", "'[1.5,2)'", "[1.5,2)"),
    ("hstore", "'a=>1, b=>NULL'", {"a": "1", "b": None}),
    ("hstore[]", "ARRAY['a=>1'::hstore]", [{"a": "1"}]),
    ("citext", "'Ab'", "Ab"),
    ("flagged", "true", True),
    ("moment", "'2026-11-20 12:00+02'", "2026-11-20T10:00:00Z"),
]


@on_full_versions
@pytest.mark.parametrize("binary", [False, True])
def test_user_defined_types_are_encoded_by_their_parts(
    database: Database, new_relay: NewRelay, version: str, binary: bool
) -> None:
    database.execute(
        "CREATE EXTENSION hstore; CREATE EXTENSION citext;"
        "CREATE DOMAIN whole AS int; CREATE DOMAIN positive AS whole CHECK (VALUE > 0);"
        "CREATE DOMAIN price AS numeric(10, 2); CREATE TYPE mood AS ENUM ('sad', 'so so', 'glad');"
        "CREATE DOMAIN moods AS mood[]; CREATE TYPE pair AS (a int, b text);"
        "CREATE TYPE span AS RANGE (subtype = numeric);"
        "CREATE DOMAIN flagged AS bool; CREATE DOMAIN moment AS timestamptz"
    )
    shown = [own for own in _OWN_TYPES if not binary or _has_binary_form(own[0])]
    columns = ", ".join(f"c{number} {declared}" for number, (declared, _, _) in enumerate(shown))
    database.execute(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
    relay = new_relay(source={"binary": binary}).start().wait_streaming()
    database.execute(f"INSERT INTO t VALUES (1, {', '.join(value for _, value, _ in shown)})")
    relay.caught_up()
    (record,) = relay.records("t")
    expected = {f"c{number}": told for number, (_, _, told) in enumerate(shown)}
    assert record.json["after"] == {"id": 1} | expected


def _has_binary_form(declared: str) -> bool:
    """Whether pgrelay reads it. It doesn't read a composite's, which names its fields' types by OID."""
    return not declared.startswith("pair")


# The oddest value of each setting, and values that it would change.
_ODD_SETTINGS = {
    "datestyle": "German, DMY",
    "intervalstyle": "postgres_verbose",
    "timezone": "Asia/Kathmandu",
    "bytea_output": "escape",
    "extra_float_digits": "-3",
    "lc_monetary": "C",
    "xmlbinary": "hex",
    "client_encoding": "LATIN1",
    "search_path": "pg_temp",
    "quote_all_identifiers": "on",
}
_ODD_ENVIRONMENT = {
    "PGDATESTYLE": "German, DMY",
    "PGTZ": "Asia/Kathmandu",
    "PGOPTIONS": "-c intervalstyle=postgres_verbose -c bytea_output=escape -c extra_float_digits=-3",
}
_SENSITIVE = {
    "day": ("date", "'20.11.2026'", "2026-11-20"),
    "at": ("timestamp", "'20.11.2026 14:54:02.5'", "2026-11-20T14:54:02.5"),
    "at_tz": ("timestamptz", "'20.11.2026 14:54:02.5+00'", "2026-11-20T14:54:02.5Z"),
    "span": ("interval", "'1 year 2 mons 3 days 04:05:06.7'", "P1Y2M3DT4H5M6.7S"),
    "data": ("bytea", "'\\x00ff41'", "AP9B"),
    "real8": ("float8", "0.1::float8 + 0.2::float8", 0.1 + 0.2),
    "word": ("text", "'é'", "é"),
    "cash": ("money", "'1234.50'", "1234.50"),
    "days": ("daterange", "'[01.11.2026,03.11.2026)'", "[2026-11-01,2026-11-03)"),
    "own": ("regclass", "'public.t'", "t"),
}


@pytest.mark.parametrize("whose", ["DATABASE {name}", "ROLE postgres IN DATABASE {name}", "environment"])
def test_settings_of_database_role_and_environment_change_nothing(
    database: Database, new_relay: NewRelay, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    columns = ", ".join(f"{name} {declared}" for name, (declared, _, _) in _SENSITIVE.items())
    database.execute(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
    if whose == "environment":
        for name, value in _ODD_ENVIRONMENT.items():
            monkeypatch.setenv(name, value)
    else:
        for name, value in _ODD_SETTINGS.items():
            database.execute(f"ALTER {whose.format(name=database.name)} SET {name} = {value!r}")
    relay = new_relay(source={"dsn": database.dsn}).start().wait_streaming()
    values = ", ".join(value for _, value, _ in _SENSITIVE.values())
    database.execute(f"INSERT INTO public.t VALUES (1, {values})")
    relay.caught_up()
    (record,) = relay.records("t")
    expected: dict[str, Any] = {name: told for name, (_, _, told) in _SENSITIVE.items()}
    assert record.json["after"] == {"id": 1} | expected
