"""The relay that the other tests use, from its start to its end."""

import signal
from pathlib import Path
from tempfile import TemporaryFile

import psycopg
import pytest

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.outcomes import WAITING
from tests.integration.program import Program
from tests.integration.relays import Relay
from tests.integration.waiting import wait_until

AWAY = {"kafka": {"bootstrap.servers": "127.0.0.1:1"}}
REFUSED = "Postgres refuses UPDATE and DELETE of tables without replica identity while they are published"


def test_rows_arrive_and_the_slot_follows(relay: Relay, database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    database.execute("INSERT INTO t VALUES (1), (2)")
    relay.caught_up()
    assert [record.json_key for record in relay.records("t")] == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize(
    ("number", "forked"), [(signal.SIGTERM, True), (signal.SIGINT, True), (signal.SIGTERM, False)]
)
def test_a_stopped_relay_exits_with_0(new_relay: NewRelay, number: signal.Signals, forked: bool) -> None:
    relay = new_relay().start(forked=forked).wait_streaming()
    assert relay.stop(number) == 0
    assert relay.log[-1]["event"] == "stopped"


def test_a_relay_goes_on_where_a_killed_one_was(relay: Relay, database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay.caught_up()
    relay.kill()
    database.execute("INSERT INTO t VALUES (1)")
    relay.start().wait_streaming()
    relay.caught_up()
    assert [record.json_key for record in relay.records("t")] == [{"id": 1}]


def test_waiting_for_a_relay_that_has_ended_fails_with_its_log(new_relay: NewRelay) -> None:
    relay = new_relay(source={"create": False}).start()
    with pytest.raises(AssertionError, match="does not exist"):
        relay.wait_streaming()
    assert relay.wait_exit() == 2


def test_a_superusers_relay_creates_the_publication_itself(database: Database, new_relay: NewRelay) -> None:
    """Only a superuser may publish all tables. Other tests create it for the role of docs/security.md."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay = new_relay(source={"dsn": database.dsn}).start().wait_streaming()
    assert relay.events("creating the publication")[0]["tables"] == "all tables"
    assert relay.events(REFUSED) == []
    database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    assert [record.json_key for record in relay.records("t")] == [{"id": 1}]


def test_a_database_that_is_read_only_by_default_gets_its_publication(
    database: Database, new_relay: NewRelay
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    database.execute(f"ALTER DATABASE {database.name} SET default_transaction_read_only TO on")
    relay = new_relay(source={"dsn": database.dsn}).start().wait_streaming()
    database.execute("BEGIN READ WRITE; INSERT INTO t VALUES (1); COMMIT")
    assert relay.records("t", 1)[0].json["after"] == {"id": 1}


def test_a_new_publication_that_makes_writes_fail_is_told_at_once(
    database: Database, new_relay: NewRelay
) -> None:
    """Without Kafka too: Postgres refuses the applications' writes from then on."""
    database.execute(
        'CREATE TABLE "a b" (id int); CREATE TABLE kept (id int); CREATE TABLE keyed (id int PRIMARY KEY)'
    )
    database.execute("ALTER TABLE kept REPLICA IDENTITY FULL")
    relay = new_relay(source={"dsn": database.dsn}, sink=AWAY).start()
    told = relay.wait_event(REFUSED)
    assert told["tables"] == ['public."a b"']
    assert told["cure"].startswith('ALTER TABLE public."a b" REPLICA IDENTITY FULL, for each of them; or')
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="does not have a replica identity"):
        database.execute('INSERT INTO "a b" VALUES (1); DELETE FROM "a b"')


@pytest.fixture
def relay_away(new_relay: NewRelay) -> Relay:
    """A relay whose Kafka is not there."""
    return new_relay(sink=AWAY).start()


def test_a_relay_that_never_reached_kafka_says_that_its_slot_stays(relay_away: Relay) -> None:
    relay_away.wait_event(WAITING)
    assert relay_away.stop() == 0
    *_, told, stopped = relay_away.log
    assert stopped["event"] == "stopped"
    assert told["event"].startswith("a slot was created, and nothing was relayed: Postgres keeps WAL")
    assert told["cure"].endswith(f"SELECT pg_drop_replication_slot('{relay_away.prefix}')")


def test_a_reset_without_kafka_says_how_to_free_the_wal(relay_away: Relay) -> None:
    relay_away.wait_event(WAITING)
    assert relay_away.stop() == 0
    ended = relay_away.command("reset")
    assert ended.returncode == 1
    drop = f"SELECT pg_drop_replication_slot('{relay_away.prefix}')"
    told = "; nothing was changed: run it again once that is over, and, if Postgres must be"
    assert told in ended.stderr
    assert f"{drop} now" in ended.stderr
    relay_away.database.execute(drop)


def test_a_signal_to_a_process_that_has_just_ended_is_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with TemporaryFile() as output:
        program = Program(["--version"], output)
        wait_until(lambda: not Path(f"/proc/{program.pid}").exists(), "its end")
        with monkeypatch.context() as untold:
            untold.setattr(program, "poll", lambda: None)
            program.send_signal(signal.SIGTERM)
        assert program.wait() == 0
