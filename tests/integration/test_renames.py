"""Renames after which Postgres goes on to describe tables by their old names."""

import pytest

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.outcomes import WAITING
from tests.integration.servers import on_full_versions


@on_full_versions
def test_roots_that_swap_their_names_get_each_others_topics(database: Database, new_relay: NewRelay) -> None:
    """Postgres describes a root again only with a new partition."""
    for root, part in (("events", "e1"), ("events_new", "n1")):
        database.execute(f"CREATE TABLE {root} (id int PRIMARY KEY) PARTITION BY RANGE (id)")
        database.execute(f"CREATE TABLE {part} PARTITION OF {root} FOR VALUES FROM (0) TO (100)")
    database.execute(
        "CREATE PUBLICATION pgrelay FOR TABLE events, events_new WITH (publish_via_partition_root = true)"
    )
    relay = new_relay().start().wait_streaming()
    database.execute("INSERT INTO events VALUES (1); INSERT INTO events_new VALUES (2)")
    relay.caught_up()
    database.execute(
        "BEGIN; ALTER TABLE events RENAME TO events_old; ALTER TABLE events_new RENAME TO events; COMMIT"
    )
    told = relay.wait_event(WAITING)["reason"]
    assert told.startswith(
        ("public.events is public.events_old now", "public.events_new is public.events now")
    )
    relay.wait_event("streaming", 2)
    database.execute("INSERT INTO events VALUES (3); INSERT INTO events_old VALUES (4)")
    relay.caught_up()
    assert relay.ids("events") == [1, 3]
    assert relay.ids("events_old") == [4]
    assert relay.ids("events_new") == [2]
    relay.caught_up()
    assert len(relay.events(WAITING)) == 1


@pytest.mark.parametrize("version", ["14"], indirect=True)
def test_tables_of_a_renamed_schema_get_new_topics_before_16(database: Database, new_relay: NewRelay) -> None:
    database.execute("CREATE SCHEMA here; CREATE TABLE here.t (id int PRIMARY KEY)")
    relay = new_relay().start().wait_streaming()
    database.execute("INSERT INTO here.t VALUES (1)")
    relay.caught_up()
    database.execute("ALTER SCHEMA here RENAME TO there")
    assert relay.wait_event(WAITING)["reason"].startswith("here.t is there.t now")
    relay.wait_event("streaming", 2)
    database.execute("INSERT INTO there.t VALUES (2)")
    relay.caught_up()
    assert relay.ids("t", schema="there") == [2]
