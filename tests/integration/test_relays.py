"""The relay that the other tests use, from its start to its end."""

import signal
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.program import Program
from tests.integration.relays import Relay
from tests.integration.waiting import wait_until


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
    assert relay.events("publication created")[0]["tables"] == "all tables"
    database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    assert [record.json_key for record in relay.records("t")] == [{"id": 1}]


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
