"""Prepared transactions are delivered when they are committed, and only once."""

from pathlib import Path

import pytest

from pgrelay.embedded.postgres import Postgres
from tests.integration.changes import changes, created, fold
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.documented import without_two_phase
from tests.integration.faults.outcomes import LOST, last_words
from tests.integration.relays import Relay
from tests.integration.servers import KafkaServer, PostgresServer

on_two_phase_versions = pytest.mark.parametrize("version", ["16", "18"], indirect=True)

# A small transaction is sent whole at PREPARE, a large one in segments before it.
small_and_large = pytest.mark.parametrize("rows", [3, 1000], ids=["small", "large"])


@pytest.fixture
def two_phase(database: Database, new_relay: NewRelay) -> Relay:
    """A relay with two_phase on, of a database with the table t."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY, payload text)")
    database.execute(f"ALTER DATABASE {database.name} SET logical_decoding_work_mem = '64kB'")
    relay = new_relay(source={"two_phase": True}).start().wait_streaming()
    database.execute("INSERT INTO t VALUES (0)")
    return relay


def prepare(database: Database, rows: int, gid: str = "g") -> None:
    """Prepare a transaction with a savepoint that is rolled back."""
    database.execute(
        f"BEGIN; INSERT INTO t SELECT g, repeat('x', 200) FROM generate_series(1, {rows}) g; SAVEPOINT s;"
        f"INSERT INTO t SELECT g, repeat('y', 200) FROM generate_series({rows} + 1, {rows} * 2) g;"
        f"ROLLBACK TO s; PREPARE TRANSACTION '{gid}'"
    )


def ids(relay: Relay) -> list[int]:
    """The ids in the order in which the records arrived, including repeated ones."""
    return [record.json["after"]["id"] for record in relay.records("t")]


@pytest.mark.parametrize("contrib", [False, True], ids=["16.14", "16.15"])
def test_a_prepared_transaction_that_only_locked_something_is_no_gap(
    kafka: KafkaServer, prefix: str, tmp_path: Path, contrib: bool
) -> None:
    """Before 16.15 and its like, the server sends its COMMIT PREPARED alone."""
    with Postgres(version="16", contrib=contrib) as server:
        database = Database(PostgresServer("16", server.dsn, server), "postgres")
        database.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (0)")
        with Relay(database, kafka, prefix, tmp_path / "relay", {"source": {"two_phase": True}}) as relay:
            relay.start().wait_streaming()
            for gid, lock in (("table", "LOCK TABLE t"), ("row", "SELECT FROM t FOR UPDATE")):
                database.execute(f"BEGIN; {lock}; PREPARE TRANSACTION '{gid}'")
                database.execute(f"COMMIT PREPARED '{gid}'")
                database.execute("INSERT INTO t SELECT max(id) + 1 FROM t")
            relay.caught_up()
            assert ids(relay) == [1, 2]


@on_two_phase_versions
@small_and_large
def test_the_rows_of_a_prepared_transaction_survive_a_kill(
    database: Database, two_phase: Relay, rows: int
) -> None:
    prepare(database, rows)
    database.execute("INSERT INTO t VALUES (-1)")
    two_phase.caught_up()
    assert ids(two_phase) == [0, -1]
    two_phase.kill()
    two_phase.start().wait_streaming()
    database.execute("COMMIT PREPARED 'g'")
    two_phase.caught_up()
    assert ids(two_phase) == [0, -1, *range(1, rows + 1)]


@on_two_phase_versions
@small_and_large
def test_a_prepared_transaction_committed_while_the_relay_is_down_arrives(
    database: Database, two_phase: Relay, rows: int
) -> None:
    prepare(database, rows)
    two_phase.caught_up()
    two_phase.stop()
    database.execute("COMMIT PREPARED 'g'")
    two_phase.start()
    two_phase.caught_up()
    assert ids(two_phase) == [0, *range(1, rows + 1)]
    two_phase.stop()
    two_phase.start()
    two_phase.caught_up()
    assert ids(two_phase) == [0, *range(1, rows + 1)]


@on_two_phase_versions
def test_two_tables_of_one_prepared_transaction_are_no_root_and_partition(
    database: Database, two_phase: Relay
) -> None:
    """The server described them before, and the relay repeats that right before the rows."""
    database.execute("CREATE TABLE u (id int PRIMARY KEY, payload text); ALTER TABLE t REPLICA IDENTITY FULL")
    database.execute("INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)")
    database.execute("BEGIN; INSERT INTO t VALUES (2); INSERT INTO u VALUES (2); PREPARE TRANSACTION 'g'")
    database.execute("COMMIT PREPARED 'g'")
    database.execute("DELETE FROM t WHERE id = 1")
    two_phase.caught_up()
    assert [record.json["op"] for record in two_phase.records("t") if record.value] == ["c", "c", "c", "d"]
    assert [record.json_key for record in two_phase.records("u")] == [{"id": 1}, {"id": 2}]


@on_two_phase_versions
@small_and_large
def test_a_rolled_back_prepared_transaction_never_arrives(
    database: Database, two_phase: Relay, rows: int
) -> None:
    prepare(database, rows, "while the relay runs")
    two_phase.caught_up()
    database.execute("ROLLBACK PREPARED 'while the relay runs'")
    prepare(database, rows, "while it is down")
    two_phase.caught_up()
    two_phase.stop()
    database.execute("ROLLBACK PREPARED 'while it is down'")
    database.execute("INSERT INTO t VALUES (-1)")
    two_phase.start()
    two_phase.caught_up()
    assert ids(two_phase) == [0, -1]
    assert two_phase.spooled() == []


def test_damaged_rows_are_a_gap_that_a_reset_ends(database: Database, two_phase: Relay) -> None:
    """The server does not send them again, so waiting would be useless."""
    prepare(database, 3)
    two_phase.caught_up()
    two_phase.stop()
    (kept,) = [path for path in two_phase.spooled() if path.suffix == ".prepared"]
    kept.write_bytes(b"{")
    assert f"{kept}: not a prepared transaction of ours" in last_words(two_phase.start(), LOST)
    assert two_phase.command("reset").returncode == 0
    assert two_phase.spooled() == []
    database.execute("COMMIT PREPARED 'g'")
    two_phase.start().wait_streaming()
    database.execute("INSERT INTO t VALUES (4)")
    two_phase.caught_up()
    assert ids(two_phase) == [0, 4]


@pytest.mark.parametrize("version", ["16", "18"])
def test_rows_lost_with_the_spool_are_a_gap_even_of_the_servers_last_transaction(
    kafka: KafkaServer, prefix: str, tmp_path: Path, version: str
) -> None:
    """Its xid is beyond all that have ended, as are those of transactions that are still to come."""
    with Postgres(version=version) as server:
        database = Database(PostgresServer(version, server.dsn, server), "postgres")
        database.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION pgrelay FOR TABLE t")
        # As a superuser: grants to a role of its own, before the second start, would end transactions.
        source = {"dsn": database.dsn, "two_phase": True, "publications": ["pgrelay"]}
        with Relay(database, kafka, prefix, tmp_path / "relay", {"source": source}) as relay:
            relay.start().wait_streaming()
            database.execute("BEGIN; INSERT INTO t VALUES (7); PREPARE TRANSACTION 'g'")
            relay.caught_up()
            relay.stop()
            for file in relay.spooled():
                file.unlink()
            relay.start().wait_streaming()
            database.execute("COMMIT PREPARED 'g'")
            assert "COMMIT PREPARED of 'g'" in last_words(relay, LOST)


@on_two_phase_versions
def test_a_gid_can_be_reused(database: Database, two_phase: Relay) -> None:
    prepare(database, 2)
    database.execute("COMMIT PREPARED 'g'")
    database.execute("DELETE FROM t WHERE id > 0")
    prepare(database, 3)
    two_phase.caught_up()
    two_phase.stop()
    two_phase.start().wait_streaming()
    database.execute("COMMIT PREPARED 'g'")
    two_phase.caught_up()
    assert [row["id"] for row in fold(two_phase.records("t"))] == [0, 1, 2, 3]


@on_two_phase_versions
def test_rows_no_longer_needed_are_removed_while_the_relay_runs(database: Database, two_phase: Relay) -> None:
    for number in range(1, 31):
        database.execute(f"BEGIN; INSERT INTO t VALUES ({number}); PREPARE TRANSACTION '{number}'")
        database.execute(f"COMMIT PREPARED '{number}'")
    two_phase.caught_up()

    def gone() -> bool:
        # The slot's restart LSN moves at a snapshot of running transactions, once later WAL is confirmed.
        database.execute("SELECT pg_log_standby_snapshot()")
        return not two_phase.spooled()

    two_phase.wait_for(gone, "the files of committed transactions to go")
    assert ids(two_phase) == list(range(31))


@on_two_phase_versions
@small_and_large
def test_a_transaction_prepared_before_two_phase_was_on_arrives(
    database: Database, new_relay: NewRelay, rows: int
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, payload text)")
    relay = new_relay().start().wait_streaming()
    prepare(database, rows)
    relay.caught_up()
    relay.stop()
    relay.sections["source"] = {"two_phase": True}
    relay.start().wait_streaming()
    database.execute("COMMIT PREPARED 'g'")
    relay.caught_up()
    assert ids(relay) == list(range(1, rows + 1))


@on_two_phase_versions
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_prepared_transaction_that_only_took_a_lock_has_no_records(
    database: Database, two_phase: Relay, end: str
) -> None:
    """PostgreSQL 18 sends its Prepare, but no BeginPrepare."""
    database.execute("BEGIN; LOCK TABLE t; PREPARE TRANSACTION 'g'")
    database.execute(f"{end} PREPARED 'g'")
    database.execute("INSERT INTO t VALUES (1)")
    two_phase.caught_up()
    assert ids(two_phase) == [0, 1]


@on_two_phase_versions
def test_without_two_phase_an_undecodable_rolled_back_prepare_is_passed(
    database: Database, two_phase: Relay
) -> None:
    two_phase.caught_up()
    two_phase.stop()
    database.execute(
        "BEGIN; SAVEPOINT s; CREATE TABLE made (id int); INSERT INTO made VALUES (1); PREPARE TRANSACTION 'g'"
    )
    database.execute("ROLLBACK PREPARED 'g'")
    database.execute("INSERT INTO t VALUES (1)")
    two_phase.start()
    two_phase.wait_for(lambda: "could not map" in two_phase.get("/readyz")[1], "Postgres to fail")
    two_phase.stop()
    for statement in without_two_phase(two_phase.prefix):
        database.execute(statement)
    two_phase.sections["source"] = {"two_phase": False}
    two_phase.start()
    two_phase.caught_up()
    assert ids(two_phase) == [0, 1]


@on_two_phase_versions
def test_without_two_phase_a_replicated_prepare_committed_by_hand_is_passed(
    database: Database, two_phase: Relay
) -> None:
    """The server skips its rows by their origin, but not the commit, which has none."""
    two_phase.caught_up()
    two_phase.stop()
    two_phase.sections["source"] = {"two_phase": True, "origin": "none"}
    two_phase.start().wait_streaming()
    with database.connect() as other:
        other.execute("SELECT pg_replication_origin_create(%s)", [database.name])
        other.execute("SELECT pg_replication_origin_session_setup(%s)", [database.name])
        other.execute("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'g'")
    two_phase.stop()
    database.execute("INSERT INTO t VALUES (2)")
    database.execute("COMMIT PREPARED 'g'")
    assert "its rows are not in" in last_words(two_phase.start(), LOST)
    assert ids(two_phase) == [0, 2], "what came before it was read with it"
    database.execute("INSERT INTO t VALUES (3)")
    for statement in without_two_phase(two_phase.prefix):
        database.execute(statement)
    two_phase.sections["source"] = {"two_phase": False, "origin": "none"}
    two_phase.start()
    two_phase.caught_up()
    assert ids(two_phase) == [0, 2, 3]
    # It belongs to the cluster.
    database.execute(f"SELECT pg_replication_origin_drop('{database.name}')")


@on_two_phase_versions
def test_each_row_of_a_prepared_transaction_has_its_own_columns(database: Database, two_phase: Relay) -> None:
    database.execute("CREATE TABLE other (id int PRIMARY KEY)")
    database.execute(
        "BEGIN; INSERT INTO other VALUES (1); ALTER TABLE other ADD name text;"
        "INSERT INTO other VALUES (2, 'two'); PREPARE TRANSACTION 'g'"
    )
    two_phase.caught_up()
    two_phase.stop()
    two_phase.start().wait_streaming()
    database.execute("COMMIT PREPARED 'g'")
    database.execute("INSERT INTO other VALUES (3, 'three')")
    two_phase.caught_up()
    assert changes(two_phase.records("other")) == [
        created({"id": 1}, {"id": 1}),
        created({"id": 2}, {"id": 2, "name": "two"}),
        created({"id": 3}, {"id": 3, "name": "three"}),
    ]


@on_two_phase_versions
def test_a_slot_that_keeps_two_phase_commit_is_reported(two_phase: Relay) -> None:
    assert two_phase.stop() == 0
    two_phase.sections["source"] = {"two_phase": False}
    told = (
        two_phase.start()
        .wait_streaming()
        .wait_event(
            "the slot has two-phase commit, though source.two_phase is false: prepared transactions wait "
            "in the spool, which must survive restarts"
        )
    )
    assert told["level"] == "warning"
    assert told["spool_dir"]


@pytest.mark.parametrize("version", ["14", "16", "18"], indirect=True)
@small_and_large
def test_without_two_phase_a_prepared_transaction_comes_at_its_commit(
    database: Database, new_relay: NewRelay, rows: int
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, payload text)")
    relay = new_relay().start().wait_streaming()
    prepare(database, rows)
    relay.caught_up()
    assert not relay.has_topic(relay.topic("t"))
    relay.stop()
    relay.start().wait_streaming()
    database.execute("COMMIT PREPARED 'g'")
    relay.caught_up()
    assert ids(relay) == list(range(1, rows + 1))
