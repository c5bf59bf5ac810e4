"""What happens to the slot without the relay's doing: rows 10, 11 and 12 of docs/guarantees.md."""

import math

import pytest
from psycopg import sql

from pgrelay.embedded.postgres import Postgres
from pgrelay.lsn import parse_lsn
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.source import Source
from pgrelay.wire.replication import StreamOptions
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.outcomes import LOST, WAITING, last_words
from tests.integration.faults.own_servers import own_postgres
from tests.integration.faults.slots import cut_off, exists, wait_free
from tests.integration.relays import Relay
from tests.integration.waiting import wait_until


def test_a_dropped_slot_is_not_recreated(database: Database, relay: Relay) -> None:
    """Row 10: changes would be missing silently."""
    with cut_off(relay):
        database.execute(f"SELECT pg_drop_replication_slot('{relay.prefix}')")
    assert f"slot {relay.prefix} is gone" in last_words(relay, LOST)
    assert not exists(database, relay.prefix)


@own_postgres()
def test_a_slot_dropped_while_we_wait_for_the_server_ends_the_relay(
    server: Postgres, database: Database, relay: Relay
) -> None:
    """Row 10."""
    server.stop()
    relay.wait_event(WAITING)
    relay.pause()
    server.start()
    database.execute(f"SELECT pg_drop_replication_slot('{relay.prefix}')")
    relay.resume()
    assert f"slot {relay.prefix} is gone" in last_words(relay, LOST)


def test_a_recreated_slot_ends_the_relay(database: Database, relay: Relay) -> None:
    """Row 10: it has the same name, but begins after the changes in between."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with cut_off(relay):
        database.execute("INSERT INTO t VALUES (1)")
        database.execute(f"SELECT pg_drop_replication_slot('{relay.prefix}')")
        database.execute(f"SELECT pg_create_logical_replication_slot('{relay.prefix}', 'pgoutput')")
    assert "the slot was moved or re-created" in last_words(relay, LOST)


def test_a_slot_moved_by_another_client_ends_the_relay(database: Database, relay: Relay) -> None:
    """Row 11."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with cut_off(relay):
        database.execute("INSERT INTO t VALUES (1)")
        database.execute(f"SELECT pg_replication_slot_advance('{relay.prefix}', pg_current_wal_lsn())")
    assert "the slot was moved or re-created" in last_words(relay, LOST)


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
async def test_a_slot_moved_by_another_client_while_we_wait_ends_the_relay(
    database: Database, new_relay: NewRelay, delivery: str
) -> None:
    """Row 11: the slot's reader may be a relay like ours, or any other client that confirms and goes."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay = new_relay(sink={"delivery": delivery}).start().wait_streaming()
    relay.caught_up()
    async with Source(database.dsn) as stranger:
        with cut_off(relay):
            await stranger.start(relay.prefix, 0, StreamOptions(1, ("pgrelay",)))
        relay.wait_for(lambda: "is active for PID" in relay.get("/readyz")[1], "the relay to wait")
        with database.connect() as connection:
            connection.execute("INSERT INTO t VALUES (1)")
            row = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        assert row is not None
        passed = parse_lsn(row[0])
        assert stranger.send_status(passed, passed)
        relay.caught_up(passed)
    assert "the slot was moved or re-created" in last_words(relay, LOST)


@own_postgres(max_slot_wal_keep_size="1MB")
@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "stopped"])
def test_a_slot_whose_wal_was_removed_ends_the_relay(
    database: Database, relay: Relay, streaming: bool
) -> None:
    """Row 12: the relay fell too far behind."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    if streaming:
        relay.pause()
    else:
        relay.stop()
    with database.connect() as connection:
        for number in range(4):
            connection.execute("INSERT INTO t VALUES (%s)", [number])
            connection.execute("SELECT pg_switch_wal()")
        connection.execute("CHECKPOINT")
    if streaming:
        relay.resume()
    else:
        relay.start()
    assert "the server removed WAL that it needs" in last_words(relay, LOST)


@own_postgres(max_slot_wal_keep_size="128MB")
def test_an_old_transaction_uses_up_the_budget_of_a_relay_without_lag(
    database: Database, relay: Relay
) -> None:
    """Row 12: the alert PgrelayWalBudget fires before the slot is lost."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with database.connect() as old, old.transaction(force_rollback=True), database.connect() as busy:
        old.execute("INSERT INTO t VALUES (1)")
        for _ in range(7):
            # Each writes a segment, 16 MB of WAL outside of any publication.
            busy.execute("SELECT pg_current_xact_id()")
            busy.execute("SELECT pg_switch_wal()")
            busy.execute("CHECKPOINT")
        relay.wait_for(lambda: 0 < budget_left(relay) < 0.25, "the budget in the metrics")
        relay.wait_for(lambda: relay.metric("pgrelay_lag_bytes") < 16_000_000, "the relay to catch up")


def budget_left(relay: Relay) -> float:
    """The expression of PgrelayWalBudget: the share left of the WAL that the server may keep."""
    safe, retained = relay.metrics("pgrelay_slot_safe_wal_bytes", "pgrelay_slot_retained_wal_bytes")
    return safe / (safe + retained)


@own_postgres(max_slot_wal_keep_size="1MB")
async def test_a_lost_slot_has_no_budget(database: Database) -> None:
    """Row 12: the server reports it like a slot without a limit."""
    async with Catalog(database.dsn) as catalog:
        await catalog.create_slot("lost")
        for _ in range(4):
            await catalog.rows(sql.SQL("SELECT pg_current_xact_id()"))
            await catalog.rows(sql.SQL("SELECT pg_switch_wal()"))
        await catalog.rows(sql.SQL("CHECKPOINT"))
        assert (await catalog.slot_wal("lost")).safe == 0
        nowhere = await catalog.slot_wal("none")
    assert nowhere.confirmed_lsn is None
    assert math.isnan(nowhere.safe)


@own_postgres(idle_replication_slot_timeout="1s")
def test_a_slot_invalidated_by_its_idle_timeout_ends_the_relay(database: Database, relay: Relay) -> None:
    """Row 12: PostgreSQL 18 invalidates it at the next checkpoint, and the error says why."""
    relay.stop()
    wait_until(lambda: ended_by_checkpoint(database, relay.prefix), "the server to end the slot")
    assert "idle_replication_slot_timeout" in last_words(relay.start(), LOST)


def ended_by_checkpoint(database: Database, slot: str) -> bool:
    with database.connect() as connection:
        connection.execute("CHECKPOINT")
        row = connection.execute(
            "SELECT invalidation_reason FROM pg_replication_slots WHERE slot_name = %s", [slot]
        ).fetchone()
    return row == ("idle_timeout",)


@own_postgres()
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_slot_lost_before_the_first_row_is_not_silently_replaced(
    server: Postgres, database: Database, new_relay: NewRelay, delivery: str
) -> None:
    """Row 10: an idle server names no LSN but the slot's, and that is a position too."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay = new_relay(sink={"delivery": delivery}).start().wait_streaming()
    relay.wait_for(lambda: relay.read(f"{relay.prefix}.offsets") != [], "a position")
    assert relay.stop() == 0
    wait_free(database, relay.prefix)
    database.execute(f"SELECT pg_drop_replication_slot('{relay.prefix}')")
    database.execute("INSERT INTO t VALUES (1)")
    assert f"slot {relay.prefix} is gone" in last_words(relay.start(), LOST)
