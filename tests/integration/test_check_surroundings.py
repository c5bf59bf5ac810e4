"""What a check finds around the relay: keys, clocks, slots, open transactions, wide rows, the registry."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from pgrelay.embedded.registry import SchemaRegistry
from pgrelay.errors import SourceUnavailable
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.outcomes import WRONG, last_words
from tests.integration.faults.slots import wait_free
from tests.integration.servers import KafkaServer
from tests.integration.test_check import Setup, only, role


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def setup(database: Database, kafka: KafkaServer, prefix: str, tmp_path: Path) -> Setup:
    return Setup(database, kafka, prefix, tmp_path)


async def test_a_primary_key_that_is_not_the_identity_is_the_cure(setup: Setup) -> None:
    setup.execute(
        "CREATE TABLE a (id int PRIMARY KEY, code text NOT NULL); CREATE UNIQUE INDEX codes ON a (code);"
        "ALTER TABLE a REPLICA IDENTITY USING INDEX codes; DROP INDEX codes;"
        "CREATE TABLE b (id int PRIMARY KEY); ALTER TABLE b REPLICA IDENTITY NOTHING;"
        "CREATE TABLE c (id int PRIMARY KEY DEFERRABLE)"
    )
    finding = only(await setup.trouble())
    assert finding.what == "3 tables without replica identity: public.a, public.b, public.c"
    cures = [f"ALTER TABLE public.{table} REPLICA IDENTITY DEFAULT" for table in "ab"]
    assert finding.cure == "; ".join([*cures, "ALTER TABLE public.c REPLICA IDENTITY FULL"])
    for cure in cures:
        setup.execute(cure)
    assert only(await setup.trouble()).what == "1 table without replica identity: public.c"


async def test_keys_that_differ_in_the_stream_are_warnings(setup: Setup) -> None:
    setup.execute(
        "CREATE TABLE days (day date PRIMARY KEY, code int NOT NULL) PARTITION BY RANGE (day);"
        "CREATE TABLE old PARTITION OF days FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');"
        "CREATE UNIQUE INDEX codes ON old (code); ALTER TABLE old REPLICA IDENTITY USING INDEX codes;"
        "CREATE TABLE sums (a int, s int GENERATED ALWAYS AS (a % 2) STORED, PRIMARY KEY (a, s));"
        "CREATE TABLE swapped (id int PRIMARY KEY DEFERRABLE); ALTER TABLE swapped REPLICA IDENTITY FULL"
    )
    options = "publish_via_partition_root, publish = 'insert, update, delete'"
    setup.publish(f"FOR TABLE days, sums, swapped WITH ({options})")
    found = await setup.trouble()
    assert {each.level for each in found} == {"warning"}
    assert [each.what.rpartition(": ")[2] for each in found] == [
        *("public.old", "public.sums", "public.swapped"),
    ]


async def test_patterns_that_match_nothing_in_the_database_are_warnings(setup: Setup) -> None:
    """A pattern for what another relay of the database publishes does match."""
    setup.execute("CREATE TABLE elsewhere (id int PRIMARY KEY, secret text)")
    setup.publish("FOR TABLE orders")
    setup.records["tables"] = {"include": [r"public\..*"], "exclude": [r"public\.elsewhere"]}
    setup.records["columns"] = {"mask": [r".*\.note"], "drop": [r"public\.elsewhere\.secret"]}
    assert await setup.trouble() == []
    setup.records["tables"] = {"include": [r"public\..*"], "exclude": ["elsewhere"]}
    setup.records["columns"] = {
        "mask": [r"orders\.note", r".*\.note"],
        "drop": [r"public\.Elsewhere\.secret"],
    }
    assert [each.what.partition(":")[0] for each in await setup.trouble()] == [
        *("records.tables.exclude", "records.columns.drop", "records.columns.mask"),
    ]


@pytest.mark.parametrize(("options", "found"), [("", 1), (", publish_via_partition_root", 0)])
async def test_a_pattern_for_the_root_matches_no_partition(setup: Setup, options: str, found: int) -> None:
    setup.execute(
        "CREATE TABLE days (day date PRIMARY KEY, note text) PARTITION BY RANGE (day);"
        "CREATE TABLE old PARTITION OF days FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')"
    )
    setup.publish(f"FOR TABLE days WITH (publish = 'insert, update, delete'{options})")
    setup.records["columns"] = {"mask": [r"public\.days\.note"]}
    assert len(await setup.trouble()) == found


async def test_columns_named_like_members_of_the_flat_envelope_are_an_error(setup: Setup) -> None:
    setup.execute("CREATE TABLE copied (id int PRIMARY KEY, __op text, __deleted bool)")
    assert await setup.trouble() == []
    setup.records |= {"envelope": "flat", "columns": {"drop": [r"public\.copied\.__op"]}}
    finding = only(await setup.trouble())
    assert finding.level == "error"
    assert finding.what.endswith(" as public.copied.__deleted")


async def test_rows_wider_than_a_record_may_be_are_a_warning(setup: Setup) -> None:
    """Only if we may read the table, because the check samples real rows."""
    setup.execute(
        "ALTER TABLE orders ALTER note SET STORAGE EXTERNAL;"
        "INSERT INTO orders SELECT i, repeat('x', 600000) FROM generate_series(1, 3) i"
    )
    assert await setup.trouble() == []
    setup.execute("INSERT INTO orders VALUES (4, repeat('x', 2000000)); ANALYZE orders")
    finding = only(await setup.trouble())
    assert (finding.level, finding.what) == ("warning", "rows of up to 1.91 MiB in public.orders")
    assert "message.max.bytes" in finding.cure
    setup.publish()
    with role(setup, "REPLICATION"):
        told = "\n".join(each.what for each in await setup.check())
    assert "1 table with large values: public.orders; not searched" in told


async def test_a_wide_row_that_compresses_well_is_a_warning(setup: Setup) -> None:
    setup.execute("INSERT INTO orders VALUES (1, repeat('x', 10000000)); ANALYZE orders")
    assert only(await setup.trouble()).what == "rows of up to 9.54 MiB in public.orders"


async def test_a_wide_row_is_a_warning_whatever_its_columns_are_called(setup: Setup) -> None:
    """In SQL `t` is a column before it is a row."""
    setup.execute(
        "ALTER TABLE orders ADD t int; INSERT INTO orders VALUES (1, repeat('x', 2000000), 7); ANALYZE orders"
    )
    assert only(await setup.trouble()).what == "rows of up to 1.91 MiB in public.orders"


async def test_a_query_that_fails_leaves_what_was_found(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not told as a server that can't be reached."""

    async def slow(*_: object) -> list[tuple[object, ...]]:
        raise SourceUnavailable("Postgres: canceling statement due to statement timeout")

    monkeypatch.setattr("pgrelay.check.queries.server_facts", slow)
    told = await setup.check()
    finding = next(each for each in told if each.level == "error")
    assert finding.what == "Postgres could not be asked about itself and the slot"
    assert "statement timeout" in finding.why
    assert any(each.what.startswith("Kafka answers at ") for each in told)


async def test_other_slots_are_listed_with_the_wal_that_they_hold(setup: Setup) -> None:
    setup.execute(f"SELECT pg_create_logical_replication_slot('{setup.prefix}_other', 'pgoutput')")
    found = await setup.check()
    told = next(each for each in found if "other slot" in each.what)
    assert told.level == "ok"
    assert f"{setup.prefix}_other (" in told.what
    assert "nobody reads it" in told.what


async def test_a_clock_that_is_off_is_a_warning(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgrelay.check.clock.time.time", lambda: time.time_ns() / 1e9 + 3600)
    finding = only(await setup.trouble())
    assert (finding.level, finding.what) == (
        "warning",
        "the server's clock is 1 h 0 min behind this machine's",
    )


@pytest.mark.xdist_group("registry")
async def test_the_schema_registry_is_checked(setup: Setup, schema_registry: SchemaRegistry) -> None:
    setup.records |= {"format": "avro", "schema_registry": {"url": schema_registry.url}}
    found = await setup.check()
    assert {each.level for each in found} == {"ok"}
    assert any(each.what == f"the schema registry answers at {schema_registry.url}" for each in found)
    away = "http://relay:secret@127.0.0.1:1"
    setup.records["schema_registry"] = {"url": away, "timeout": 1, "max.retries": 0}
    finding = only(await setup.trouble())
    assert finding.level == "error"
    assert finding.cure == "start the registry, or correct url in records.schema_registry"
    assert "secret" not in str(finding)


@pytest.mark.xdist_group("registry")
def test_debeziums_schemas_that_would_stop_a_run_are_an_error(
    database: Database, new_relay: NewRelay, schema_registry: SchemaRegistry, closing: ExitStack
) -> None:
    """Only the members that matter, as AvroConverter registers them."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)")
    relay = new_relay(records={"format": "avro", "schema_registry": {"url": schema_registry.url}})
    namespace = f"{relay.prefix}.public.orders"
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "int"}]}
    source = {
        "type": "record",
        "name": "Source",
        "namespace": "io.debezium.connector.postgresql",
        "fields": [{"name": "lsn", "type": ["null", "long"], "default": None}],
    }
    envelope = {
        "type": "record",
        "name": "Envelope",
        "namespace": namespace,
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
        ],
    }
    client = closing.enter_context(SchemaRegistryClient({"url": schema_registry.url}))
    subject = f"{namespace}-value"
    client.register_schema(subject, Schema(json.dumps(envelope), "AVRO"))

    def found() -> list[dict[str, str]]:
        told = json.loads(relay.command("check", "--json").stdout)
        return [each for each in told if each["level"] != "ok"]

    (finding,) = found()
    assert (finding["level"], finding["what"]) == (
        "error",
        f"1 subject with another writer's schema: {subject}",
    )
    assert finding["why"].startswith("their compatibility level makes the registry refuse ours")
    relay.start().wait_streaming()
    database.execute("INSERT INTO orders VALUES (1)")
    last_words(relay, WRONG)
    client.set_compatibility(subject, "NONE")
    assert found() == []
    relay.start().wait_streaming()
    relay.caught_up()
    assert relay.stop() == 0
    wait_free(database, relay.prefix)
    client.set_compatibility(subject, "BACKWARD")
    assert found() == []


async def test_a_role_of_pg_monitor_sees_whose_transaction_is_open(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that right a role sees only its own."""
    monkeypatch.setattr("pgrelay.check.slot._LONG_OPEN_S", 0.0)
    setup.publish()
    with role(setup, "REPLICATION") as name, psycopg.connect(setup.database.dsn) as writer:
        writer.execute("INSERT INTO orders VALUES (1)")
        assert await setup.trouble() == []
        setup.execute(f"GRANT pg_monitor TO {name}")
        assert only(await setup.trouble()).what.startswith(f"PID {writer.info.backend_pid} ")
