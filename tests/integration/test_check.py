"""`pgrelay check` against real servers: a healthy setup, each mistake, and that nothing is ever changed."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka.admin import AdminClient

from pgrelay.check import Finding, check
from pgrelay.config import Config
from pgrelay.embedded.postgres import Postgres
from tests.integration.databases import Database
from tests.integration.servers import KafkaServer, on_all_versions, on_full_versions
from tests.integration.topics import create_topic

TABLE = "CREATE TABLE orders (id int PRIMARY KEY, note text)"
STATE = (
    "SELECT slot_name, confirmed_flush_lsn::text FROM pg_replication_slots ORDER BY 1",
    "SELECT pubname FROM pg_publication ORDER BY 1",
    "SELECT oid FROM pg_class ORDER BY 1",
)


class Setup:
    """A database with one good table, a broker, and their configuration, for tests to break."""

    def __init__(self, database: Database, kafka: KafkaServer, prefix: str, directory: Path) -> None:
        self.database = database
        self.bootstrap = kafka.bootstrap
        self.prefix = prefix
        self.source: dict[str, Any] = {"dsn": database.dsn, "slot": prefix, "publications": [prefix]}
        self.sink: dict[str, Any] = {"kafka": {"bootstrap.servers": kafka.bootstrap}}
        self.records: dict[str, Any] = {"prefix": prefix}
        self.transactions = {"spool_dir": directory / "spool"}
        database.execute(TABLE)

    @property
    def sections(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "sink": self.sink,
            "records": self.records,
            "transactions": self.transactions,
            "http": {"listen": None},
        }

    async def check(self) -> list[Finding]:
        """The findings; asserts that nothing has changed."""
        before = self._state()
        found = await check(Config.model_validate(self.sections))
        assert self._state() == before
        return found

    async def trouble(self) -> list[Finding]:
        return [finding for finding in await self.check() if finding.level != "ok"]

    def execute(self, statement: str) -> None:
        self.database.execute(statement)

    def create_slot(self, plugin: str = "pgoutput") -> None:
        self.execute(f"SELECT pg_create_logical_replication_slot('{self.prefix}', '{plugin}')")

    def publish(self, what: str = "FOR ALL TABLES") -> None:
        self.execute(f"CREATE PUBLICATION {self.prefix} {what}")

    def create_topic(self, name: str, partitions: int = 1, **settings: str) -> None:
        """Create a topic below the prefix."""
        create_topic(self.bootstrap, f"{self.prefix}.{name}", partitions, **settings)

    def _topics(self) -> list[str]:
        topics = AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(timeout=60).topics
        return sorted(topic for topic in topics if topic.startswith(self.prefix))

    def _state(self) -> list[object]:
        with self.database.connect() as connection:
            rows = [connection.execute(query.encode()).fetchall() for query in STATE]
        return [self._topics(), Path(self.transactions["spool_dir"]).exists(), *rows]


@pytest.fixture
def setup(database: Database, kafka: KafkaServer, prefix: str, tmp_path: Path) -> Setup:
    return Setup(database, kafka, prefix, tmp_path)


@contextmanager
def role(setup: Setup, attributes: str) -> Iterator[str]:
    """A new role, with which `setup` connects during the block."""
    name = f"r_{setup.prefix}"
    setup.execute(f"CREATE ROLE {name} LOGIN {attributes}")
    own = setup.source["dsn"]
    setup.source["dsn"] = psycopg.conninfo.make_conninfo(own, user=name)
    try:
        yield name
    finally:
        setup.source["dsn"] = own
        setup.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


def only(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


@on_all_versions
async def test_a_setup_that_a_run_completes_is_ok(setup: Setup) -> None:
    found = await setup.check()
    assert [finding for finding in found if finding.level != "ok"] == []
    told = "\n".join(finding.what for finding in found)
    assert f"slot {setup.prefix} does not exist; a run creates it" in told
    assert f"publication {setup.prefix} does not exist; a run creates it for all tables: 1 now" in told
    assert f"0 of 4 topics exist; a run creates {setup.prefix}.public.orders" in told


@on_all_versions
async def test_a_complete_setup_is_ok(setup: Setup) -> None:
    setup.publish("FOR TABLE orders")
    setup.create_slot()
    for topic in ("public.orders", "message"):
        setup.create_topic(topic)
    setup.create_topic("schema", retention_ms="-1")
    setup.create_topic("offsets", cleanup_policy="compact")
    setup.source["create"] = setup.sink["create_topics"] = False
    found = await setup.check()
    assert [finding for finding in found if finding.level != "ok"] == []
    told = "\n".join(finding.what for finding in found)
    assert f"slot {setup.prefix} exists, and nobody else reads it" in told
    assert f"publication {setup.prefix} holds 1 table, and publishes insert, update, delete" in told
    assert "4 topics exist" in told


@on_full_versions
async def test_tables_without_identity_are_a_warning(setup: Setup) -> None:
    setup.execute('CREATE TABLE "Log" (at date, note text); CREATE TABLE audit (i int)')
    setup.execute("ALTER TABLE audit REPLICA IDENTITY FULL")
    finding = only(await setup.trouble())
    assert finding.level == "warning"
    assert 'ALTER TABLE public."Log" REPLICA IDENTITY FULL' in finding.cure
    setup.publish("FOR TABLE \"Log\" WITH (publish = 'insert')")
    assert await setup.trouble() == []


async def test_partitions_need_an_identity_even_if_the_root_is_published(setup: Setup) -> None:
    setup.execute(
        "CREATE TABLE days (day date PRIMARY KEY) PARTITION BY RANGE (day);"
        "CREATE TABLE old PARTITION OF days FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');"
        "ALTER TABLE old REPLICA IDENTITY NOTHING"
    )
    setup.publish("FOR TABLE days WITH (publish_via_partition_root)")
    found = await setup.check()
    names = [each.what.rpartition(": ")[2] for each in found if each.level != "ok"]
    assert names == ["public.old", "public.days"]
    setup.execute(f"ALTER PUBLICATION {setup.prefix} SET (publish = 'insert, update, delete')")
    assert only(await setup.trouble()).what.endswith(": public.old")
    assert any(f"{setup.prefix}.public.days" in each.what for each in found)


async def test_column_lists_without_the_key_are_reported(setup: Setup) -> None:
    setup.publish("FOR TABLE orders (note)")
    finding = only(await setup.trouble())
    why = "Postgres refuses every UPDATE and DELETE of these tables"
    assert (finding.level, finding.why) == ("warning", why)
    other = f"{setup.prefix}_2"
    setup.execute(f"CREATE PUBLICATION {other} FOR TABLE orders")
    setup.source["publications"] = [setup.prefix, other]
    assert [each.level for each in await setup.trouble()] == ["warning", "error"]


async def test_unlogged_tables_are_reported(setup: Setup) -> None:
    setup.execute("CREATE UNLOGGED TABLE fleeting (i int PRIMARY KEY)")
    finding = only(await setup.trouble())
    assert (finding.level, finding.what) == ("warning", "1 unlogged table: public.fleeting")
    setup.source["tables"] = ["public.fleeting", "public.orders", "public.nothing", "nowhere.*"]
    found = await setup.trouble()
    assert [each.level for each in found] == ["error", "error"]
    assert "public.nothing, nowhere.*" in found[0].what or "nowhere.*, public.nothing" in found[0].what
    assert "public.fleeting" in found[1].what


async def test_tables_missing_from_an_existing_publication_are_a_warning(setup: Setup) -> None:
    setup.execute("CREATE TABLE more (i int PRIMARY KEY)")
    setup.publish("FOR TABLE orders")
    setup.source["tables"] = ["public.*"]
    finding = only(await setup.trouble())
    assert finding.level == "warning"
    assert finding.cure.endswith("ADD TABLE ONLY public.more")


async def test_types_with_an_unknown_binary_form_are_an_error(setup: Setup) -> None:
    setup.source["binary"] = True
    setup.execute(
        "CREATE TYPE mood AS ENUM ('good'); CREATE TYPE pair AS (a int, b int); CREATE DOMAIN whole AS int;"
        "CREATE TABLE odd (id int PRIMARY KEY, m mood, p pair, d whole, w tsquery, a aclitem, r int4range)"
    )
    finding = only(await setup.trouble())
    assert finding.level == "error"
    assert finding.what.endswith("public.odd.p (public.pair), public.odd.w (tsquery)")
    assert "the first row" in finding.why


@pytest.mark.parametrize(
    ("template", "collide"), [("{prefix}.{schema}.{table}", False), ("{prefix}.{table}", True)]
)
async def test_colliding_topics_are_an_error(setup: Setup, template: str, collide: bool) -> None:
    setup.execute("CREATE SCHEMA other; CREATE TABLE other.orders (id int PRIMARY KEY)")
    setup.records["topic"] = template
    assert [each.level for each in await setup.trouble()] == (["error"] if collide else [])


async def test_with_creation_off_what_is_missing_is_reported(setup: Setup) -> None:
    setup.source["create"] = setup.sink["create_topics"] = False
    setup.source["messages"] = False
    slot, publication, *_ = await setup.trouble()
    assert (slot.level, slot.what) == ("error", f"slot {setup.prefix} does not exist")
    assert publication.what.startswith(f"publication {setup.prefix} does not exist in database")
    setup.publish()
    _, topics, position = await setup.trouble()
    assert topics.what == f"2 topics missing: {setup.prefix}.public.orders, {setup.prefix}.schema"
    assert (position.level, position.what) == ("warning", f"topic {setup.prefix}.offsets is missing")


async def test_an_empty_publication_is_reported(setup: Setup) -> None:
    setup.publish("")
    finding = only(await setup.trouble())
    assert finding.what == f"publication {setup.prefix} holds no table"


async def test_a_dropped_publication_is_an_error(setup: Setup) -> None:
    setup.create_slot()
    finding = only(await setup.trouble())
    assert finding.level == "error"
    assert finding.why.startswith(f"slot {setup.prefix} exists: its stream lacks")


async def test_a_slot_of_another_plugin_is_an_error(setup: Setup) -> None:
    setup.create_slot("test_decoding")
    setup.publish()
    found = only(await setup.trouble())
    assert found.what == f"source.slot: {setup.prefix} uses plugin test_decoding, not pgoutput"


async def test_a_physical_slot_is_an_error(setup: Setup) -> None:
    setup.publish()
    setup.execute(f"SELECT pg_create_physical_replication_slot('{setup.prefix}')")
    try:
        assert only(await setup.trouble()).what == f"source.slot: {setup.prefix} is a physical slot"
    finally:
        setup.execute(f"SELECT pg_drop_replication_slot('{setup.prefix}')")


async def test_a_slot_of_another_database_is_an_error(setup: Setup) -> None:
    setup.create_slot()
    setup.source["dsn"] = psycopg.conninfo.make_conninfo(setup.source["dsn"], dbname="postgres")
    found = [each.what for each in await setup.check() if each.level == "error"]
    database = setup.database.name
    assert (
        found[0] == f"source.slot: {setup.prefix} belongs to database {database}, source.dsn names postgres"
    )


async def test_a_slot_in_use_is_a_warning(setup: Setup) -> None:
    setup.create_slot()
    setup.publish()
    dsn = psycopg.conninfo.make_conninfo(setup.database.dsn, replication="database", application_name="other")
    with closing(psycopg.connect(dsn, autocommit=True)) as reader:
        options = f"proto_version '1', publication_names '{setup.prefix}'"
        reader.pgconn.send_query(f"START_REPLICATION SLOT {setup.prefix} LOGICAL 0/0 ({options})".encode())
        reader.pgconn.get_result()
        finding = only(await setup.trouble())
        pid = reader.info.backend_pid
    assert finding.level == "warning"
    assert finding.what == f"slot {setup.prefix} is in use by PID {pid}, other from 127.0.0.1"


@pytest.mark.parametrize(
    ("parameter", "what", "cure"),
    [
        ({"user": "nobody"}, "Postgres does not let us in", "CREATE ROLE nobody"),
        ({"port": "1"}, "Postgres can't be reached", "start Postgres"),
    ],
)
async def test_a_connection_that_fails_is_an_error_with_its_cure(
    setup: Setup, parameter: dict[str, str], what: str, cure: str
) -> None:
    setup.source["dsn"] = psycopg.conninfo.make_conninfo(setup.source["dsn"], **parameter)
    finding = only(await setup.trouble())
    assert (finding.level, finding.what) == ("error", what)
    assert cure in finding.cure


async def test_a_role_without_rights_is_reported_with_the_grants(setup: Setup) -> None:
    with role(setup, "NOREPLICATION") as name:
        replication, publication = await setup.trouble()
        assert replication.what == "Postgres refuses a replication connection"
        assert replication.cure.startswith(f"ALTER ROLE {name} REPLICATION")
        assert (publication.level, publication.cure) == (
            "error",
            f'as a superuser: CREATE PUBLICATION "{setup.prefix}" FOR ALL TABLES; '
            "or correct source.publications",
        )
        setup.source["tables"] = ["public.orders"]
        _, publication = await setup.trouble()
        assert f'GRANT CREATE ON DATABASE "{setup.database.name}"' in publication.cure
        setup.execute(f'GRANT CREATE ON DATABASE "{setup.database.name}" TO {name}')
        _, publication = await setup.trouble()
        assert "public.orders is another role's table" in publication.why


async def test_a_role_with_just_the_rights_is_ok(setup: Setup) -> None:
    with role(setup, "REPLICATION") as name:
        setup.execute(f'GRANT CREATE ON DATABASE "{setup.database.name}" TO {name}')
        setup.execute(f"ALTER TABLE orders OWNER TO {name}")
        setup.source["tables"] = ["public.orders"]
        assert await setup.trouble() == []


async def test_a_forgotten_prepared_transaction_is_reported(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgrelay.check.slot._LONG_OPEN_S", 0.0)
    setup.execute("BEGIN; INSERT INTO orders VALUES (1); PREPARE TRANSACTION 'it''s forgotten'")
    finding = only(await setup.trouble())
    assert finding.what.startswith("prepared transaction 'it''s forgotten' of database")
    assert "ROLLBACK PREPARED 'it''s forgotten'" in finding.cure


async def test_a_server_with_wal_level_replica_is_an_error(setup: Setup, embedded_postgres: Postgres) -> None:
    embedded_postgres.settings |= {"wal_level": "replica", "max_wal_senders": "1"}
    embedded_postgres.restart()
    level, senders = await setup.trouble()
    assert (level.level, level.what) == ("error", "wal_level is replica")
    assert senders.what == "0 of 1 WAL senders are in use"


async def test_no_free_slot_is_an_error(setup: Setup, embedded_postgres: Postgres) -> None:
    embedded_postgres.settings |= {"max_replication_slots": "1", "max_wal_senders": "0"}
    embedded_postgres.restart()
    setup.execute("SELECT pg_create_logical_replication_slot('old', 'pgoutput')")
    slots, replication = await setup.trouble()
    assert (slots.level, slots.what) == ("error", "all 1 replication slots are taken")
    assert slots.cure.endswith("nobody reads: old")
    assert "max_wal_senders" in replication.cure


async def test_a_slots_budget_is_reported(setup: Setup, embedded_postgres: Postgres) -> None:
    embedded_postgres.settings |= {"max_slot_wal_keep_size": "64MB", "idle_replication_slot_timeout": "1h"}
    embedded_postgres.restart()
    setup.publish()
    setup.create_slot()
    with psycopg.connect(setup.database.dsn) as writer:
        # An open transaction grows the WAL while the check measures.
        writer.execute("INSERT INTO orders SELECT g, repeat('x', 1000) FROM generate_series(1, 1000) g")
        found = await setup.check()
    told = next(each.what for each in found if each.what.startswith("WAL grows by"))
    assert f"slot {setup.prefix} lasts" in told
    idle = next(each for each in found if "is lost in" in each.what)
    assert (idle.level, idle.why) == ("warning", "idle_replication_slot_timeout is 1 h 0 min")


async def test_a_lost_slot_is_an_error(setup: Setup, embedded_postgres: Postgres) -> None:
    embedded_postgres.settings |= {"max_slot_wal_keep_size": "1MB"}
    embedded_postgres.restart()
    setup.publish()
    setup.create_slot()
    for number in range(3):
        setup.execute(f"INSERT INTO orders VALUES ({number})")
        setup.execute("SELECT pg_switch_wal()")
    setup.execute("CHECKPOINT")
    finding = only(await setup.trouble())
    assert (finding.level, finding.what) == ("error", f"slot {setup.prefix} is lost")
    assert "max_slot_wal_keep_size" in finding.why


def test_the_command_prints_findings_and_exits_accordingly(setup: Setup, tmp_path: Path) -> None:
    path = tmp_path / "relay.yaml"

    def run() -> tuple[int, list[dict[str, str]]]:
        # JSON is YAML.
        path.write_text(json.dumps(setup.sections, default=str))
        code = "import sys; from pgrelay.cli import main; sys.exit(main(sys.argv[1:]))"
        command = [sys.executable, "-c", code, "check", "--config", str(path), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.stderr == ""
        return done.returncode, json.loads(done.stdout)

    code, findings = run()
    assert code == 0
    assert {finding["level"] for finding in findings} == {"ok"}
    setup.source["create"] = False
    code, findings = run()
    assert code == 2
    assert [each["what"] for each in findings if each["level"] == "error"] == [
        f"slot {setup.prefix} does not exist",
        f"publication {setup.prefix} does not exist in database {setup.database.name}",
    ]
