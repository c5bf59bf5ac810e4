"""Transactions too large for memory or for the disk, or rolled back in part: rows 17 to 20."""

import resource
from pathlib import Path

import psycopg
import pytest

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.memory import peak_memory
from tests.integration.faults.outcomes import WAITING
from tests.integration.relays import Relay

MANY = 300_000  # rows
LARGE = 20_000
MIB = 1 << 20
TABLE = "CREATE TABLE t (id int PRIMARY KEY, body text)"
INSERT = "INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(%s::int, %s) i"


def prepare(database: Database) -> None:
    """Create the table, and make the server stream what exceeds the smallest logical_decoding_work_mem."""
    database.execute(TABLE)
    database.execute(f"ALTER DATABASE \"{database.name}\" SET logical_decoding_work_mem = '64kB'")


def test_a_rolled_back_savepoint_drops_only_its_own_rows(database: Database, new_relay: NewRelay) -> None:
    """Row 17: in a streamed transaction, also with savepoints in savepoints."""
    prepare(database)
    relay = new_relay().start().wait_streaming()
    with psycopg.connect(database.dsn) as connection:
        connection.execute(INSERT, [1, 1000])
        with connection.transaction(force_rollback=True):
            connection.execute(INSERT, [1001, 2000])
            with connection.transaction():
                connection.execute(INSERT, [2001, 3000])
        with connection.transaction():
            connection.execute(INSERT, [3001, 4000])
            with connection.transaction(force_rollback=True):
                connection.execute(INSERT, [4001, 5000])
        relay.wait_for(lambda: relay.metric("pgrelay_open_transactions") == 1, "a transaction half sent")
    relay.caught_up()
    assert relay.ids("t") == [*range(1, 1001), *range(3001, 4001)]


def test_a_transaction_that_the_server_fails_to_stream_is_relayed_after_its_commit(
    database: Database, new_relay: NewRelay
) -> None:
    """Rows 15 and 16 in a streamed transaction, at which PostgreSQL 14 to 18 fail each time."""
    prepare(database)
    relay = new_relay().start().wait_streaming()
    with psycopg.connect(database.dsn) as connection:
        connection.execute(INSERT, [1, 1000])
        with connection.transaction(force_rollback=True):
            connection.execute("ALTER TABLE t ADD undone int")
            connection.execute(INSERT, [1001, 2000])
        connection.execute(INSERT, [2001, 3000])
        connection.execute("ALTER TABLE t ADD flag bool DEFAULT true")
        connection.execute(INSERT, [3001, 4000])
    relay.caught_up()
    assert relay.ids("t") == [*range(1, 1001), *range(2001, 4001)]
    before, after = relay.records("t")[0].json["after"], relay.records("t")[-1].json["after"]
    assert (before.keys(), after.keys()) == ({"id", "body"}, {"id", "body", "flag"})
    assert "Postgres's streaming" in relay.wait_event(WAITING)["reason"]
    relay.wait_event("from here on, this run takes transactions after their commit only")


def test_a_large_rollback_is_harmless_with_protocol_version_1(
    database: Database, new_relay: NewRelay
) -> None:
    """Row 18: PostgreSQL 18 may abort what it never streamed; the assembler's tests always do."""
    prepare(database)
    relay = new_relay(source={"protocol_version": 1}).start().wait_streaming()
    with psycopg.connect(database.dsn) as connection:
        connection.execute(INSERT, [1, 5000])
        connection.rollback()
    database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    assert relay.ids("t") == [1]
    assert relay.metric("pgrelay_reconnects_total") == 0


@pytest.mark.parametrize("streaming", ["off", "parallel"])
def test_a_huge_transaction_needs_little_memory(
    database: Database, new_relay: NewRelay, tmp_path: Path, streaming: str
) -> None:
    """Row 19: whether the server or we hold it until its commit."""
    database.execute(TABLE)
    spool = tmp_path / "spool"
    relay = new_relay(
        source={"streaming": streaming},
        transactions={"memory_mb": 4, "spool_dir": str(spool)},
        sink={"kafka": {"queue.buffering.max.messages": 10_000}},
    )
    relay.start().wait_streaming()
    database.execute("INSERT INTO t VALUES (0)")
    relay.caught_up()
    before = peak_memory(relay)
    database.execute(f"INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, {MANY}) i")
    relay.caught_up(timeout=180)
    assert peak_memory(relay) < before + 32 * MIB
    assert (relay.metric("pgrelay_spooled_bytes_total") > 32 * MIB) == (streaming != "off")
    assert not list(spool.rglob("*.spool"))
    assert relay.ids("t") == list(range(MANY + 1))


def test_a_full_disk_is_waited_for(database: Database, new_relay: NewRelay) -> None:
    """Row 20: nothing is confirmed that was not relayed, and nothing incomplete is replayed.

    The reason is reported throughout, although each try begins with a stream and an empty file.
    A limit on file size simulates the full disk: it fails the same calls, and needs no rights.
    """
    prepare(database)
    relay = new_relay(transactions={"memory_mb": 1}).start().wait_streaming()
    limit_files(relay, MIB)
    database.execute(f"INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, {LARGE}) i")
    reason = relay.wait_event(WAITING)["reason"]
    assert ".spool: File too large; free space there" in reason
    told = set()

    def tried_again() -> bool:
        told.add(relay.get("/readyz"))
        return relay.metric('pgrelay_reconnects_total{end="spool"}') >= 4

    relay.wait_for(tried_again, "more tries")
    assert {status for status, _ in told} == {503}
    assert all(".spool: File too large" in why for _, why in told)
    # Not known; or, if a try took over a second, for how long the transaction may have been on its way.
    assert relay.metric("pgrelay_lag_seconds") != 0
    every, of_spool = relay.metrics("pgrelay_reconnects_total", 'pgrelay_reconnects_total{end="spool"}')
    assert every == of_spool
    assert len(relay.events("streaming")) == 1
    assert len(relay.events(WAITING)) > 1
    stopped_at = relay.confirmed_lsn()
    limit_files(relay, resource.RLIM_INFINITY)
    relay.caught_up()
    assert relay.get("/readyz") == (200, "streaming\n")
    assert len(relay.events("the spool has room again")) == 1
    assert relay.ids("t") == list(range(1, LARGE + 1))
    assert stopped_at < relay.records("t")[0].json["source"]["commit_lsn"]


def limit_files(relay: Relay, size: int) -> None:
    """No file that the relay writes may become larger."""
    resource.prlimit(relay.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
