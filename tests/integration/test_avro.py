"""Avro with a real schema registry: records read back by their schema's id, changed schemas, and a registry
that refuses or is away.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from pgrelay.embedded.registry import SchemaRegistry
from tests.integration.avro import Reader, value_ids
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.proxy import Proxy
from tests.integration.relays import Relay

# All share one registry, since starting it takes as long as several tests.
pytestmark = pytest.mark.xdist_group("registry")


@pytest.fixture
def reader(schema_registry: SchemaRegistry) -> Reader:
    return Reader(schema_registry)


@pytest.fixture
def registry_proxy(schema_registry: SchemaRegistry) -> Iterator[Proxy]:
    with Proxy(schema_registry.port) as proxy:
        yield proxy


def avro(url: str, **records: Any) -> dict[str, Any]:
    """The `records` section for the registry at `url`."""
    return {"format": "avro", "schema_registry": {"url": url}, **records}


def impatient(proxy: Proxy) -> dict[str, Any]:
    """The same for one behind a proxy, with a short timeout, since it will not answer."""
    records = avro(f"http://127.0.0.1:{proxy.port}/apis/ccompat/v7")
    records["schema_registry"] |= {"timeout": 1, "max.retries": 0}
    return records


@pytest.fixture
def relay(new_relay: NewRelay, schema_registry: SchemaRegistry) -> Relay:
    return new_relay(records=avro(schema_registry.url)).start().wait_streaming()


def test_changes_read_back_by_the_id_of_their_schema(
    relay: Relay, database: Database, reader: Reader
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text, amount numeric(10,2))")
    database.execute("INSERT INTO t VALUES (1, 'Ada', 1.5)")
    database.execute("UPDATE t SET name = NULL WHERE id = 1")
    database.execute("UPDATE t SET id = 2")
    database.execute("DELETE FROM t")
    database.execute("TRUNCATE t CASCADE")
    relay.caught_up()
    found = reader.records(relay, relay.topic("t"))
    ada = {"id": 1, "name": "Ada", "amount": Decimal("1.50")}
    renamed = ada | {"name": None}
    key_of_1, key_of_2 = {"id": 1, "name": None, "amount": None}, {"id": 2, "name": None, "amount": None}
    assert [(key, value and (value["op"], value["before"], value["after"])) for key, value in found] == [
        ({"id": 1}, ("c", None, ada)),
        ({"id": 1}, ("u", None, renamed)),
        ({"id": 1}, ("d", key_of_1, None)),
        ({"id": 1}, None),
        ({"id": 2}, ("c", None, renamed | {"id": 2})),
        ({"id": 2}, ("d", key_of_2, None)),
        ({"id": 2}, None),
        (None, ("t", None, None)),
    ]
    source = found[0][1]["source"]
    assert (source["db"], source["schema"], source["table"]) == (database.name, "public", "t")
    assert found[-1][1]["truncate"] == {"cascade": True, "restart_identity": False}
    places = [value["source"]["commit_lsn"] for _, value in found if value]
    assert places == sorted(places)


@pytest.mark.parametrize("binary", [False, True])
def test_values_of_every_kind_of_type_read_back(
    new_relay: NewRelay, schema_registry: SchemaRegistry, database: Database, reader: Reader, binary: bool
) -> None:
    relay = new_relay(records=avro(schema_registry.url), source={"binary": binary}).start().wait_streaming()
    database.execute("CREATE DOMAIN board AS int[][]")
    database.execute("CREATE DOMAIN small_board AS board")
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, flag bool, small int2, big int8, single real, double float8,"
        " exact numeric(12,3), loose numeric, day date, local timestamp, at timestamptz, raw bytea,"
        ' doc jsonb, ref uuid, tags text[], grid int[][], span int4range, addr inet, "odd name" text,'
        " squares board, fewer small_board, boards small_board[])"
    )
    database.execute(
        "INSERT INTO t VALUES (1, true, -3, 9007199254740993, 0.1, 1e23, -1234.5, 'NaN', '2026-11-20',"
        " '2026-11-20 14:54:02.343135', '2026-11-20 14:54:02.343135+01', '\\x00ff', '{\"a\": 1}',"
        " 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{a,NULL,\"b,c\"}', '{{1,2},{3,NULL}}', '[1,5)',"
        " '10.0.0.1', 'é', '{{1}}', '{{1,2}}', '{\"{{1},{2}}\",NULL}')"
    )
    relay.caught_up()
    [row] = reader.rows(relay, "t")
    assert round(row.pop("single"), 7) == 0.1
    assert str(row.pop("ref")) == "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    assert row == {
        "id": 1,
        "flag": True,
        "small": -3,
        "big": 9007199254740993,
        "double": 1e23,
        "exact": Decimal("-1234.500"),
        "loose": "NaN",
        "day": date(2026, 11, 20),
        "local": datetime(2026, 11, 20, 14, 54, 2, 343135),
        "at": datetime(2026, 11, 20, 13, 54, 2, 343135, UTC),
        "raw": b"\x00\xff",
        "doc": '{"a": 1}',
        "tags": ["a", None, "b,c"],
        "grid": [[1, 2], [3, None]],
        "squares": [[1]],
        "fewer": [[1, 2]],
        "boards": [[[1], [2]], None],
        "span": "[1,5)",
        "addr": "10.0.0.1",
        "odd_x20_name": "é",
    }


def test_a_changed_schema_is_registered_before_its_first_row(
    relay: Relay, database: Database, reader: Reader
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text, size int)")
    with database.connect() as connection:
        connection.execute("INSERT INTO t VALUES (1, 'a', 1)")
        connection.execute("ALTER TABLE t ADD COLUMN added text")
        connection.execute("INSERT INTO t VALUES (2, 'b', 2, 'x')")
        connection.execute("ALTER TABLE t DROP COLUMN name")
        connection.execute("INSERT INTO t VALUES (3, 3, 'y')")
        connection.execute("ALTER TABLE t RENAME COLUMN added TO renamed")
        connection.execute("INSERT INTO t VALUES (4, 4, 'z')")
        connection.execute("ALTER TABLE t ALTER COLUMN size TYPE bigint")
        connection.execute("INSERT INTO t VALUES (5, 5000000000, 'w')")
    relay.caught_up()
    assert reader.rows(relay, "t") == [
        {"id": 1, "name": "a", "size": 1},
        {"id": 2, "name": "b", "size": 2, "added": "x"},
        {"id": 3, "size": 3, "added": "y"},
        {"id": 4, "size": 4, "renamed": "z"},
        {"id": 5, "size": 5_000_000_000, "renamed": "w"},
    ]
    assert len(set(value_ids(relay.records("t")))) == 5
    assert reader.versions(f"{relay.topic('t')}-value") == [1, 2, 3, 4, 5]
    assert reader.versions(f"{relay.topic('t')}-key") == [1]


def test_a_restart_registers_nothing_new(relay: Relay, database: Database, reader: Reader) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    assert relay.stop() == 0
    relay.start().wait_streaming()
    database.execute("INSERT INTO t VALUES (2)")
    relay.caught_up()
    assert reader.rows(relay, "t") == [{"id": 1}, {"id": 2}]
    assert len(set(value_ids(relay.records("t")))) == 1


def test_a_refused_schema_stops_the_relay_before_any_later_row(
    relay: Relay, database: Database, reader: Reader
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, size bigint)")
    database.execute("INSERT INTO t VALUES (1, 1)")
    relay.caught_up()
    database.execute("ALTER TABLE t ALTER COLUMN size TYPE text")
    database.execute("INSERT INTO t VALUES (2, 'two')")
    assert relay.wait_exit() == 2
    assert "public.t: schema registry http://127.0.0.1:" in relay.log_text
    assert f"{relay.topic('t')}-value" in relay.log_text
    assert "compatibility" in relay.log_text
    assert reader.rows(relay, "t") == [{"id": 1, "size": 1}]


def test_a_registry_that_is_away_at_the_start_is_waited_for(
    new_relay: NewRelay, registry_proxy: Proxy, database: Database, reader: Reader
) -> None:
    registry_proxy.refuse()
    relay = new_relay(records=impatient(registry_proxy)).start()
    event = relay.wait_event("waiting, will go on by itself")
    assert "schema registry http://127.0.0.1:" in event["reason"]
    relay.wait_for(lambda: "schema registry" in relay.get("/readyz")[1], "the reason on /readyz")
    registry_proxy.release()
    relay.wait_streaming()
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    assert reader.rows(relay, "t") == [{"id": 1}]


@pytest.mark.parametrize("trouble", ["refuse", "hold_replies"])
def test_while_the_registry_is_away_nothing_is_confirmed(
    new_relay: NewRelay, registry_proxy: Proxy, database: Database, reader: Reader, trouble: str
) -> None:
    relay = new_relay(records=impatient(registry_proxy)).start().wait_streaming()
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    getattr(registry_proxy, trouble)()
    database.execute("INSERT INTO t VALUES (2)")
    relay.caught_up()
    confirmed = relay.confirmed_lsn()
    database.execute("ALTER TABLE t ADD COLUMN name text")
    database.execute("INSERT INTO t VALUES (3, 'c')")
    relay.wait_event("waiting, will go on by itself")
    relay.wait_for(lambda: "schema registry" in relay.get("/readyz")[1], "the reason on /readyz")
    assert reader.rows(relay, "t") == [{"id": 1}, {"id": 2}]
    behind = relay.confirmed_lsn()
    registry_proxy.release()
    relay.wait_streaming()
    relay.caught_up()
    assert confirmed <= behind < relay.confirmed_lsn()
    assert reader.rows(relay, "t") == [{"id": 1}, {"id": 2}, {"id": 3, "name": "c"}]


def test_flat_rows_messages_and_transaction_boundaries_read_back(
    new_relay: NewRelay, schema_registry: SchemaRegistry, database: Database, reader: Reader
) -> None:
    records = avro(schema_registry.url, envelope="flat", transaction_topic=True)
    relay = new_relay(records=records).start().wait_streaming()
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
    database.execute("INSERT INTO t VALUES (1, 'a')")
    database.execute("SELECT pg_logical_emit_message(true, 'audit', 'hello')")
    relay.caught_up()
    [(key, row)] = reader.records(relay, relay.topic("t"))
    assert (key, row["id"], row["name"], row["__op"], row["__deleted"]) == ({"id": 1}, 1, "a", "c", False)
    [(key, message)] = reader.records(relay, f"{relay.prefix}.message")
    assert (key, message["__message"]) == ({"prefix": "audit"}, {"prefix": "audit", "content": b"hello"})
    bounds = [value for _, value in reader.records(relay, f"{relay.prefix}.transaction")]
    assert [(value["status"], value["event_count"]) for value in bounds] == [("BEGIN", None), ("END", 1)] * 2
    counted = [{"data_collection": "public.t", "event_count": 1}]
    assert bounds[1]["data_collections"] == counted


def test_unknown_registry_options_are_refused(new_relay: NewRelay, schema_registry: SchemaRegistry) -> None:
    options = {"url": schema_registry.url, "basic.auth.user": "me:pw"}
    relay = new_relay(records={"format": "avro", "schema_registry": options}).start()
    assert relay.wait_exit() == 2
    assert "records.schema_registry: Unrecognized properties: basic.auth.user" in relay.log_text
