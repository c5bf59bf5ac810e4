"""Standbys: slots that outlive their primary (PostgreSQL 17 and later), decoding on one (16 and later)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrelay.check import check
from pgrelay.config import Config
from pgrelay.embedded.kafka import Kafka
from pgrelay.embedded.postgres import Postgres
from pgrelay.lsn import parse_lsn
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.source import Source
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.outcomes import LOST, WRONG, last_words
from tests.integration.relays import Relay
from tests.integration.servers import PostgresServer
from tests.integration.standby import (
    SLOT,
    ask,
    make_failover_slot,
    on,
    standby_of,
    wait_synced,
    whichever_is_primary,
)
from tests.integration.waiting import wait_until


@pytest.fixture
def postgres(version: str) -> Iterator[PostgresServer]:
    """The test's own primary."""
    with Postgres(version=version, contrib=True) as primary:
        yield PostgresServer(version, primary.dsn, primary)


@pytest.fixture
def primary(postgres: PostgresServer) -> Postgres:
    assert postgres.embedded is not None
    return postgres.embedded


def ids(relay: Relay, count: int) -> list[int]:
    """The ids of the rows in the topic, each once, in the order of their first records."""
    records = relay.records("t", count)
    return list(dict.fromkeys(json.loads(record.key or b"")["id"] for record in records))


@pytest.mark.parametrize("version", ["17", "18"], indirect=True)
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_failover_slot_goes_on_after_promotion(
    primary: Postgres, database: Database, prefix: str, new_relay: NewRelay, delivery: str
) -> None:
    make_failover_slot(database, prefix)
    with standby_of(primary, sync_replication_slots="on") as standby:
        primary.settings["synchronized_standby_slots"] = SLOT
        primary.restart()
        second = on(standby, database)
        dsn = whichever_is_primary(primary, standby, database)
        source = {"dsn": dsn, "publications": [prefix]}
        relay = new_relay(source=source, sink={"delivery": delivery}).start().wait_streaming()
        database.execute("INSERT INTO t VALUES (1), (2)")
        relay.caught_up()
        wait_synced(database, second, prefix)

        # The relay does not get what the standby has not received.
        standby.stop()
        database.execute("INSERT INTO t VALUES (99)")
        shown = 503, "Postgres waits for a standby of synchronized_standby_slots\n"
        relay.wait_for(lambda: relay.get("/readyz") == shown, "/readyz to say so")
        assert f"gets no changes while no standby reads {SLOT}" in relay.command("check").stdout
        primary.stop("immediate")

        standby.start()
        ask(second, "SELECT pg_promote()")
        second.execute("INSERT INTO t VALUES (3)")
        relay.database = second
        relay.caught_up()
        assert ids(relay, 3) == [1, 2, 3]
        if delivery == "exactly_once":
            assert len(relay.records("t")) == 3
        assert relay.stop() == 0


@pytest.mark.parametrize("version", ["17"], indirect=True)
@pytest.mark.parametrize(
    ("running", "delivery"), [(True, "at_least_once"), (False, "at_least_once"), (False, "exactly_once")]
)
def test_a_standby_that_was_behind_at_its_promotion_is_refused(
    primary: Postgres, database: Database, prefix: str, new_relay: NewRelay, running: bool, delivery: str
) -> None:
    """Without synchronized_standby_slots, we would silently skip what it wrote below our position."""
    make_failover_slot(database, prefix)
    with standby_of(primary, sync_replication_slots="on") as standby:
        second = on(standby, database)
        dsn = whichever_is_primary(primary, standby, database)
        source = {"dsn": dsn, "publications": [prefix]}
        relay = new_relay(source=source, sink={"delivery": delivery}).start().wait_streaming()
        database.execute("INSERT INTO t VALUES (1)")
        relay.caught_up()
        wait_synced(database, second, prefix)
        standby.stop()
        database.execute("INSERT INTO t SELECT generate_series(2, 1000)")
        relay.caught_up()
        if running:
            relay.pause()
        else:
            assert relay.stop() == 0
        primary.stop("immediate")
        standby.start()
        ask(second, "SELECT pg_promote()")
        second.execute("INSERT INTO t SELECT generate_series(10001, 20000)")
        if running:
            relay.resume()
        else:
            relay.start()
        assert "the standby that was promoted had not received it" in last_words(relay, LOST)


@pytest.mark.parametrize("version", ["18"], indirect=True)
def test_a_standby_that_lacks_unacknowledged_records_is_refused(
    primary: Postgres, database: Database, prefix: str, new_relay: NewRelay, embedded_kafka: Kafka
) -> None:
    """The producer outlives the primary: its records would reach the topic, but be in no table."""
    make_failover_slot(database, prefix)
    with standby_of(primary, sync_replication_slots="on") as standby:
        second = on(standby, database)
        dsn = whichever_is_primary(primary, standby, database)
        relay = new_relay(source={"dsn": dsn, "publications": [prefix]}).start().wait_streaming()
        database.execute("INSERT INTO t VALUES (1)")
        relay.caught_up()
        wait_synced(database, second, prefix)
        embedded_kafka.pause()
        # Everything before the row is on the standby, so it lacks only the row.
        caught_up = f"SELECT pg_last_wal_replay_lsn() >= '{ask(database, 'SELECT pg_current_wal_lsn()')}'"
        wait_until(lambda: ask(second, caught_up) is True, "the standby to have all", 60)
        standby.stop()
        database.execute("INSERT INTO t VALUES (2)")
        # Positions are on their way too, so those do not tell.
        relay.wait_for(lambda: relay.metric("pgrelay_records_total") == 2, "the row to be sent")
        primary.stop("immediate")
        standby.start()
        ask(second, "SELECT pg_promote()")
        second.execute("INSERT INTO t SELECT generate_series(10001, 20000)")
        assert "the standby that was promoted had not received it" in last_words(relay, LOST)


@pytest.mark.parametrize("version", ["18"], indirect=True)
@pytest.mark.parametrize(("running", "delivery"), [(True, "at_least_once"), (False, "exactly_once")])
def test_a_second_promoted_standby_is_refused(
    primary: Postgres, database: Database, prefix: str, new_relay: NewRelay, running: bool, delivery: str
) -> None:
    """Its timeline has the first one's number, and it has written other changes past our position."""
    make_failover_slot(database, prefix)
    synced = {"sync_replication_slots": "on"}
    with standby_of(primary, **synced) as first, standby_of(primary, "second", **synced) as second:
        ours, theirs = on(first, database), on(second, database)
        dsn = whichever_is_primary(first, second, database)
        source = {"dsn": database.dsn, "publications": [prefix]}
        relay = new_relay(source=source, sink={"delivery": delivery}).start().wait_streaming()
        database.execute("INSERT INTO t VALUES (1)")
        relay.caught_up()
        wait_synced(database, ours, prefix)
        wait_synced(database, theirs, prefix)
        assert relay.stop() == 0
        second.stop()
        database.execute("INSERT INTO t VALUES (2)")
        primary.stop()
        ask(ours, "SELECT pg_promote()")
        ours.execute("INSERT INTO t VALUES (3)")
        relay.sections["source"] = {"dsn": dsn, "publications": [prefix]}
        relay.database = ours
        relay.start().wait_streaming()
        relay.caught_up()
        assert ids(relay, 3) == [1, 2, 3]
        if running:
            relay.pause()
        else:
            assert relay.stop() == 0
        first.stop("immediate")
        second.start()
        ask(theirs, "SELECT pg_promote()")
        theirs.execute("INSERT INTO t SELECT generate_series(10001, 20000)")
        if running:
            relay.resume()
        else:
            relay.start()
        assert "another standby was promoted there" in last_words(relay, LOST)


@pytest.mark.parametrize("version", ["18"], indirect=True)
def test_a_promoted_server_without_its_history_file_is_refused(
    primary: Postgres, database: Database, prefix: str, new_relay: NewRelay
) -> None:
    make_failover_slot(database, prefix)
    with standby_of(primary, sync_replication_slots="on") as standby:
        second = on(standby, database)
        source = {"dsn": whichever_is_primary(primary, standby, database), "publications": [prefix]}
        relay = new_relay(source=source).start().wait_streaming()
        database.execute("INSERT INTO t VALUES (1)")
        relay.caught_up()
        wait_synced(database, second, prefix)
        assert relay.stop() == 0
        primary.stop()
        ask(second, "SELECT pg_promote()")
        history = standby.data / "pg_wal" / "00000002.history"
        away = history.rename(history.with_suffix(".away"))
        relay.database = second
        told = last_words(relay.start(), WRONG)
        assert "lacks the file pg_wal/00000002.history" in told
        assert relay.command("check").returncode == WRONG
        away.rename(history)
        relay.start()
        second.execute("INSERT INTO t VALUES (2)")
        relay.caught_up()
        assert ids(relay, 2) == [1, 2]
        assert relay.stop() == 0
        # Where it left an older timeline than the position's does not matter any more.
        history.rename(away)
        relay.start().wait_streaming()


@pytest.mark.parametrize("version", ["18"], indirect=True)
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_prepared_transaction_comes_once_if_the_standbys_slot_lags(
    primary: Postgres, database: Database, prefix: str, new_relay: NewRelay, delivery: str
) -> None:
    """Its commit is sent again, but its rows were deleted once the primary's slot had passed them."""
    make_failover_slot(database, prefix, two_phase=True)
    with standby_of(primary, sync_replication_slots="on") as standby:
        second = on(standby, database)
        source = {
            "dsn": whichever_is_primary(primary, standby, database),
            "publications": [prefix],
            "two_phase": True,
        }
        relay = new_relay(source=source, sink={"delivery": delivery}).start().wait_streaming()
        database.execute("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'g'")
        relay.caught_up()
        wait_synced(database, second, prefix)
        second.execute("ALTER SYSTEM SET sync_replication_slots = off")
        second.execute("SELECT pg_reload_conf()")
        worker = "SELECT 1 FROM pg_stat_activity WHERE backend_type = 'slotsync worker'"
        wait_until(lambda: ask(second, worker) is None, "the slot to be synchronised no more", 60)
        database.execute("COMMIT PREPARED 'g'")
        relay.caught_up()

        def gone() -> bool:
            database.execute("SELECT pg_log_standby_snapshot()")
            return not relay.spooled()

        relay.wait_for(gone, "the rows to go")
        assert relay.stop() == 0
        primary.stop()
        ask(second, "SELECT pg_promote()")
        second.execute("INSERT INTO t VALUES (2)")
        relay.database = second
        relay.start()
        relay.caught_up()
        assert relay.ids("t", 2) == [1, 2]
        assert relay.stop() == 0


@pytest.mark.parametrize("version", ["16", "18"], indirect=True)
async def test_a_relay_decodes_on_a_standby_and_goes_on_after_promotion(
    primary: Postgres, database: Database, prefix: str, new_relay: NewRelay
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with standby_of(primary) as standby:
        second = on(standby, database)
        source = {"dsn": second.dsn, "publications": [prefix]}
        relay = new_relay(source=source)
        relay.database = second
        cure = "a standby can't create it; on the primary, CREATE PUBLICATION"
        assert cure in last_words(relay.start(), WRONG)
        database.execute(f"CREATE PUBLICATION {prefix} FOR TABLE t")
        wait_until(lambda: ask(second, "SELECT 1 FROM pg_publication") is not None, "it on the standby")
        relay.start()
        assert "SELECT pg_log_standby_snapshot()" in relay.wait_event("creating the slot")["waits_for"]

        def streams() -> bool:
            # A new slot on a standby waits for this record, otherwise written every 15 seconds.
            database.execute("SELECT pg_log_standby_snapshot()")
            return relay.get("/readyz")[0] == 200

        relay.wait_for(streams, "the stream to flow")
        database.execute("INSERT INTO t VALUES (1), (2)")
        relay.caught_up(parse_lsn(str(ask(database, "SELECT pg_current_wal_lsn()"))))
        assert ids(relay, 2) == [1, 2]
        sink = {"kafka": {"bootstrap.servers": relay.kafka.bootstrap}}
        sections = {"source": source | {"slot": prefix}, "sink": sink, "records": {"prefix": prefix}}
        config = Config.model_validate(sections | {"http": {"listen": None}})
        assert [finding for finding in await check(config) if finding.level == "error"] == []
        # The relay goes on when the standby becomes a primary.
        ask(second, "SELECT pg_promote()")
        second.execute("INSERT INTO t VALUES (3)")
        relay.caught_up()
        assert ids(relay, 3) == [1, 2, 3]
        # And when it reconnects on the new timeline.
        ask(
            second,
            f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{prefix}'",
        )
        second.execute("INSERT INTO t VALUES (4)")
        relay.caught_up()
        assert ids(relay, 4) == [1, 2, 3, 4]
        assert relay.stop() == 0


@pytest.mark.parametrize("version", ["18"], indirect=True)
def test_two_relays_with_equal_slot_names_share_no_prepared_transaction(
    primary: Postgres, database: Database, prefix: str, new_relay: NewRelay, tmp_path: Path
) -> None:
    """One reads the primary and one a standby, each has its own table, and both run on one host."""
    for table in ("ours", "theirs"):
        database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
        database.execute(f"CREATE PUBLICATION {table} FOR TABLE {table}")
    spool = {"spool_dir": str(tmp_path / "both")}
    source = {"dsn": database.dsn, "publications": ["ours"], "two_phase": True}
    with standby_of(primary) as standby:
        second = on(standby, database)
        ours = new_relay(source=source, transactions=spool).start().wait_streaming()
        elsewhere = {"dsn": second.dsn, "publications": ["theirs"]}
        theirs = new_relay(
            source={**source, **elsewhere}, transactions=spool, records={"prefix": f"{prefix}.theirs"}
        )
        theirs.database = second
        theirs.start()

        def waits() -> bool:
            database.execute("SELECT pg_log_standby_snapshot()")
            return "is in use by another relay: a suspended one" in theirs.get("/readyz")[1]

        theirs.wait_for(waits, "the second to wait for the first")
        database.execute(
            "BEGIN; INSERT INTO ours VALUES (1); INSERT INTO theirs VALUES (2); PREPARE TRANSACTION 'g'"
        )
        ours.caught_up()
        database.execute("COMMIT PREPARED 'g'")
        ours.caught_up()
        assert ours.ids("ours") == [1]
        assert ours.stop() == 0
        theirs.caught_up(parse_lsn(str(ask(database, "SELECT pg_current_wal_lsn()"))))
        found = theirs.read(f"{prefix}.theirs.public.theirs", 1)
        assert [record.json_key["id"] for record in found] == [2]
        assert not ours.has_topic(f"{prefix}.theirs.public.ours")
        assert theirs.stop() == 0


@pytest.mark.parametrize("version", ["18"], indirect=True)
@pytest.mark.parametrize(
    ("delivery", "synced"), [("at_least_once", True), ("exactly_once", True), ("at_least_once", False)]
)
def test_a_standby_is_waited_for_until_its_promotion(
    primary: Postgres, database: Database, prefix: str, new_relay: NewRelay, delivery: str, synced: bool
) -> None:
    """If source.dsn does not say which server to take: by a running relay and by a starting one.

    `synced`: the standby has the slot, but nobody can read it yet.
    """
    make_failover_slot(database, prefix)
    with standby_of(primary, sync_replication_slots="on" if synced else "off") as standby:
        second = on(standby, database)
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        source = {"dsn": f"postgresql://postgres@{hosts}/{database.name}", "publications": [prefix]}
        relay = new_relay(source=source, sink={"delivery": delivery}).start().wait_streaming()
        database.execute("INSERT INTO t VALUES (1)")
        relay.caught_up()
        if synced:
            wait_synced(database, second, prefix)
        primary.stop("immediate")
        relay.wait_for(lambda: "waiting for its promotion" in relay.get("/readyz")[1], "the relay to wait")
        relay.kill()
        relay.start()
        relay.wait_for(lambda: "waiting for its promotion" in relay.get("/readyz")[1], "the new one to wait")
        ask(second, "SELECT pg_promote()")
        if not synced:
            assert f"slot {prefix} is gone" in last_words(relay, LOST)
            return
        second.execute("INSERT INTO t VALUES (2)")
        relay.database = second
        relay.caught_up()
        assert ids(relay, 2) == [1, 2]


@pytest.mark.parametrize("version", ["18"], indirect=True)
async def test_a_role_with_serializable_default_can_query_a_standby(
    primary: Postgres, database: Database
) -> None:
    """The default is set for the role or database. A hot standby refuses all queries of such a session."""
    database.execute(f"ALTER DATABASE {database.name} SET default_transaction_isolation TO serializable")
    with standby_of(primary) as standby:
        dsn = on(standby, database).dsn
        async with Catalog(dsn) as catalog, Source(dsn) as source:
            assert await catalog.in_recovery()
            await source.identify()
