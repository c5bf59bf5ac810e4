"""The publication and its tables change while the relay uses them: rows 13 and 14 of docs/guarantees.md."""

import time

import pytest

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.outcomes import WRONG, last_words
from tests.integration.relays import Relay
from tests.integration.waiting import wait_until

LONGEST_REST = 10.0  # seconds between two looks at the server
SOON = LONGEST_REST + 25.0  # seconds, most of them for a busy machine

OTHER_KINDS = (
    "publications were altered to publish other kinds of changes: those that they do not publish, or did not "
    "before, are missing; if they are wanted, publish them, and copy the tables again"
)

by_version = pytest.mark.parametrize("version", ["16", "18"], indirect=True)


@by_version
@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
def test_a_dropped_publication_ends_the_relay(database: Database, new_relay: NewRelay, busy: bool) -> None:
    """Row 13: PostgreSQL 18 would silently skip rows, and re-creating the publication would hide the gap."""
    # The interval of status updates must not matter.
    relay = new_relay(source={"status_interval_s": 45}).start().wait_streaming()
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay.caught_up()
    began = time.monotonic()
    database.execute("DROP PUBLICATION pgrelay")
    if busy:
        database.execute("INSERT INTO t VALUES (1)")
    assert "publication" in last_words(relay, WRONG)
    assert time.monotonic() - began < SOON
    assert "although slot" in last_words(relay.start(), WRONG)


def test_a_look_that_waited_for_a_lock_does_not_delay_the_next_ones(database: Database, relay: Relay) -> None:
    """Row 13: a look that takes long is followed by a rest, and PostgreSQL 18 skips rows meanwhile."""
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid != pg_backend_pid()"
    # So long it takes, which is less than a query may.
    waits = f"SELECT pid {others} AND wait_event_type = 'Lock' AND clock_timestamp() - query_start > '4 s'"
    looks = f"SELECT count(*) {others} AND backend_type = 'client backend' AND state = 'active'"
    with database.connect() as asking:
        with database.connect() as other, other.transaction():
            other.execute("LOCK TABLE pg_publication_rel")
            wait_until(lambda: asking.execute(waits).fetchall(), "a look that waits for long")
        wait_until(lambda: asking.execute(looks).fetchall() == [(0,)], "the end of the look")
    began = time.monotonic()
    database.execute("DROP PUBLICATION pgrelay")
    assert "publication pgrelay was dropped" in last_words(relay, WRONG)
    assert time.monotonic() - began < SOON


@pytest.mark.parametrize("version", ["16"], indirect=True)
def test_a_publication_that_came_back_too_late_needs_a_reset(database: Database, relay: Relay) -> None:
    """Row 13: up to PostgreSQL 17, rows written without it can't be decoded any more."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay.stop()
    database.execute("DROP PUBLICATION pgrelay")
    database.execute("INSERT INTO t VALUES (1)")
    database.execute("CREATE PUBLICATION pgrelay FOR ALL TABLES")
    assert "run pgrelay reset, then copy the tables" in last_words(relay.start(), WRONG)


def test_a_recreated_publication_ends_the_relay(database: Database, relay: Relay) -> None:
    """Row 13: between two of our queries; PostgreSQL 18 has silently skipped the row."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay.caught_up()
    relay.pause()  # so that it does not query meanwhile
    database.execute("DROP PUBLICATION pgrelay")
    database.execute("INSERT INTO t VALUES (1)")
    database.execute("CREATE PUBLICATION pgrelay FOR ALL TABLES")
    relay.resume()
    words = last_words(relay, WRONG)
    assert "publication pgrelay was dropped and re-created" in words
    assert "copy its tables again" in words


def test_a_publication_recreated_while_the_relay_was_down_is_a_warning(
    database: Database, relay: Relay
) -> None:
    """Row 13: nobody can know whether rows were written meanwhile, so it is reported."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay.caught_up()
    relay.stop()
    assert changed_publications(relay.start().wait_streaming()) == []
    relay.stop()
    database.execute("ALTER PUBLICATION pgrelay RENAME TO other")
    database.execute("INSERT INTO t VALUES (1)")
    database.execute("ALTER PUBLICATION other RENAME TO pgrelay")
    assert changed_publications(relay.start().wait_streaming()) == [["pgrelay"]]


def changed_publications(relay: Relay) -> list[list[str]]:
    """The publications that the relay has warned about."""
    return [event["publications"] for event in relay.log if "renamed or altered" in event["event"]]


@by_version
def test_other_kinds_of_changes_are_a_warning_while_we_run(database: Database, relay: Relay) -> None:
    """Row 13: the server sends none of the others, and does not say so."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    relay.caught_up()
    database.execute("ALTER PUBLICATION pgrelay SET (publish = 'insert')")
    assert relay.wait_event(OTHER_KINDS)["publications"] == ["pgrelay"]
    database.execute("ALTER PUBLICATION pgrelay SET (publish = 'insert, delete')")
    relay.wait_event(OTHER_KINDS, 2)
    assert len(relay.events(OTHER_KINDS)) == 2


def test_a_locked_partition_does_not_delay_others(database: Database, relay: Relay) -> None:
    """Neither other partitions of its table nor other tables."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    database.execute("CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)")
    database.execute("CREATE TABLE high PARTITION OF t FOR VALUES FROM (10) TO (20)")
    database.execute("ALTER TABLE low REPLICA IDENTITY FULL; ALTER TABLE high REPLICA IDENTITY FULL")
    database.execute("ALTER PUBLICATION pgrelay SET (publish_via_partition_root = true)")
    with database.connect() as other, other.transaction():
        other.execute("LOCK TABLE high")
        database.execute("INSERT INTO low VALUES (1)")
        relay.caught_up()
    assert [record.json["after"]["id"] for record in relay.records("t")] == [1]


def test_a_misspelt_publication_ends_the_relay(new_relay: NewRelay) -> None:
    """Row 13."""
    relay = new_relay(source={"publications": ["pgrelais"], "create": False}).start()
    assert "source.publications: pgrelais does not exist" in last_words(relay, WRONG)


@by_version
def test_a_table_that_is_put_back_before_anybody_looks_is_reported(
    database: Database, new_relay: NewRelay
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE stays (id int PRIMARY KEY)")
    relay = new_relay(source={"tables": ["public.t", "public.stays"]}).start().wait_streaming()
    relay.wait_for(lambda: relay.metric("pgrelay_published_tables") == 2, "a query of the publication")
    # In one transaction, so that the relay surely can't look in between.
    publication = "ALTER PUBLICATION pgrelay"
    database.execute(
        f"BEGIN; {publication} DROP TABLE t; INSERT INTO t VALUES (1); {publication} ADD TABLE t; COMMIT"
    )
    database.execute("INSERT INTO t VALUES (2)")
    told = relay.wait_event(
        "tables were taken out of the publication and put back: rows written in between are missing "
        "(none if one statement did both); if there were any, copy the tables again"
    )
    assert (told["tables"], told["count"]) == (["public.t"], 1)
    relay.caught_up()
    assert relay.ids("t") == [2]


@pytest.mark.parametrize("version", ["14", "18"], indirect=True)
def test_a_table_that_is_put_back_while_the_relay_is_down_is_a_warning(
    database: Database, new_relay: NewRelay
) -> None:
    """Nobody can know whether rows were written meanwhile, so it is reported."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE stays (id int PRIMARY KEY)")
    relay = new_relay(source={"tables": ["public.t", "public.stays"]}).start().wait_streaming()
    relay.stop()
    assert put_in(relay.start().wait_streaming()) == []
    relay.stop()
    database.execute("ALTER PUBLICATION pgrelay DROP TABLE t; INSERT INTO t VALUES (1)")
    database.execute("ALTER PUBLICATION pgrelay ADD TABLE t")
    assert put_in(relay.start().wait_streaming()) == [["public.t"]]


def test_a_table_that_another_publication_holds_throughout_is_not_reported(
    database: Database, new_relay: NewRelay
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    database.execute("CREATE PUBLICATION one FOR TABLE t; CREATE PUBLICATION two FOR TABLE t")
    relay = new_relay(source={"publications": ["one", "two"]}).start().wait_streaming()
    relay.stop()
    database.execute("ALTER PUBLICATION one DROP TABLE t")
    database.execute("ALTER PUBLICATION one ADD TABLE t; CREATE SCHEMA s")
    database.execute("ALTER PUBLICATION two ADD TABLES IN SCHEMA s")
    assert put_in(relay.start().wait_streaming()) == [["s.*"]]


def put_in(relay: Relay) -> list[list[str]]:
    """The tables and schemas that the relay has warned about at its start."""
    return [event["tables"] for event in relay.log if "put into the publication" in event["event"]]


LEFT = "tables left the publication", "public.gone", "ALTER PUBLICATION ... ADD TABLE, then copy them again"
DROPPED = "published tables were dropped", "public.gone", "consumers keep their rows"
TABLE_CHANGES = {
    "dropped": ("DROP TABLE gone", 1, DROPPED),
    "made anew": ("DROP TABLE gone; CREATE TABLE gone (id int)", 1, DROPPED),
    "renamed": (
        "ALTER TABLE gone RENAME TO elsewhere; CREATE TABLE gone (id int)",
        2,
        ("published tables were renamed", "public.gone to public.elsewhere", "under the new name"),
    ),
    "moved": (
        "CREATE SCHEMA s; ALTER TABLE gone SET SCHEMA s",
        2,
        ("published tables were renamed", "public.gone to s.gone", "under the new name"),
    ),
    "unpublished": ("ALTER PUBLICATION pgrelay DROP TABLE gone", 1, LEFT),
}


@pytest.mark.parametrize(("statement", "left", "told"), TABLE_CHANGES.values(), ids=TABLE_CHANGES)
def test_a_table_that_leaves_the_publication_does_not_stop_the_others(
    database: Database, new_relay: NewRelay, statement: str, left: int, told: tuple[str, str, str]
) -> None:
    """Row 14: in the middle of a transaction. The relay reports it, since the stream doesn't."""
    database.execute("CREATE TABLE gone (id int PRIMARY KEY); CREATE TABLE stays (id int PRIMARY KEY)")
    relay = new_relay(source={"tables": ["public.gone", "public.stays"]}).start().wait_streaming()
    database.execute("INSERT INTO gone VALUES (1); INSERT INTO stays VALUES (1)")
    relay.wait_for(lambda: relay.metric("pgrelay_published_tables") == 2, "a query of the publication")
    database.execute(f"BEGIN; INSERT INTO gone VALUES (2); INSERT INTO stays VALUES (2); {statement}; COMMIT")
    database.execute("INSERT INTO stays VALUES (3)")
    relay.caught_up()
    assert relay.ids("stays") == [1, 2, 3]
    assert relay.ids("gone") == [1, 2]
    what, table, cure = told
    event = relay.wait_event(what)
    assert event["tables"] == [table]
    assert cure in event["cure"]
    relay.wait_for(
        lambda: relay.metric("pgrelay_published_tables") == left, "the number of tables in the metrics"
    )
