"""What a check finds in the position of earlier runs in Kafka: the gaps that would end a run."""

import json
from collections.abc import Callable
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from pgrelay.lsn import parse_lsn
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.once import offsets_topic, positions
from tests.integration.faults.outcomes import LOST, WRONG, last_words
from tests.integration.faults.slots import wait_free
from tests.integration.relays import Relay

CURE: Final = "run pgrelay reset, then copy the tables"


@pytest.fixture(params=["at_least_once", "exactly_once"])
def stopped(request: pytest.FixtureRequest, database: Database, new_relay: NewRelay) -> Relay:
    """A stopped relay with a free slot; it has relayed one row, and there is one that it has not seen."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay = new_relay(sink={"delivery": request.param}).start().wait_streaming()
    database.execute("INSERT INTO t VALUES (0)")
    relay.caught_up()
    assert relay.stop() == 0
    wait_free(database, relay.prefix)
    database.execute("INSERT INTO t VALUES (1)")
    return relay


def findings(relay: Relay) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(relay.command("check", "--json").stdout)
    return found


def errors(relay: Relay) -> list[dict[str, str]]:
    return [each for each in findings(relay) if each["level"] == "error"]


def drop(relay: Relay) -> None:
    relay.database.execute(f"SELECT pg_drop_replication_slot('{relay.prefix}')")


def make_anew(relay: Relay) -> None:
    drop(relay)
    relay.database.execute(f"SELECT pg_create_logical_replication_slot('{relay.prefix}', 'pgoutput')")


def move(relay: Relay) -> None:
    relay.database.execute(
        f"SELECT pg_replication_slot_advance('{relay.prefix}', pg_current_wal_flush_lsn())"
    )


def rewrite(relay: Relay, key: dict[str, Any], value: dict[str, Any]) -> None:
    """Add a position that differs from the latest one in these members."""
    record = positions(relay)[-1]
    assert record.key is not None
    assert record.value is not None
    producer = Producer({"bootstrap.servers": relay.kafka.bootstrap})
    told = json.dumps({**json.loads(record.value), **value})
    producer.produce(
        offsets_topic(relay), told, json.dumps({**json.loads(record.key), **key}, separators=(",", ":"))
    )
    producer.flush()


def get_ahead(relay: Relay) -> None:
    """Move the position ahead of the server, as after a restore from a backup."""
    rewrite(relay, {}, {"lsn": parse_lsn("FFFF/0")})


def test_after_a_stop_a_check_finds_nothing(stopped: Relay) -> None:
    found = findings(stopped)
    assert {each["level"] for each in found} == {"ok"}
    assert any(each["what"].startswith("Kafka has everything up to ") for each in found)


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (drop, "slot {slot} is gone, and Kafka has everything up to "),
        (make_anew, "the slot stands at "),
        (move, "the slot stands at "),
        (get_ahead, "Kafka has everything up to FFFF/0, but the server's WAL ends at "),
    ],
    ids=["dropped", "re-created", "moved", "restored"],
)
def test_a_check_finds_the_gap_that_would_end_a_run(
    stopped: Relay, spoil: Callable[[Relay], None], what: str
) -> None:
    spoil(stopped)
    (found,) = errors(stopped)
    assert stopped.command("check").returncode == LOST
    assert found["what"].startswith(what.format(slot=stopped.prefix))
    assert found["why"] == "a run would lose changes, and ends with exit code 3"
    assert found["cure"] == CURE
    assert what.format(slot=stopped.prefix) in last_words(stopped.start(), LOST)
    assert stopped.command("reset").returncode == 0
    assert errors(stopped) == []


def test_a_check_finds_the_unreadable_position_that_would_end_a_run(stopped: Relay) -> None:
    rewrite(stopped, {}, {"lsn": "none"})
    (found,) = errors(stopped)
    assert found["what"].startswith(f"topic {stopped.prefix}.offsets, partition 0, offset ")
    assert found["why"] == "a run ends with exit code 2"
    assert found["cure"].startswith("run the version that wrote it")
    stopped.start()
    assert stopped.wait_exit() == WRONG


@pytest.mark.parametrize("stopped", ["at_least_once"], indirect=True)
def test_a_check_and_a_run_tell_that_records_may_get_other_numbers(stopped: Relay) -> None:
    stopped.sections["records"] = {"tables": {"include": ["public.t"]}}
    (found,) = [each for each in findings(stopped) if each["level"] != "ok"]
    assert found["level"] == "warning"
    assert found["what"].endswith(" changed since the last run")
    told = stopped.start().wait_streaming().wait_event(f"{found['what']}: {found['why']}")
    assert told["cure"] == found["cure"]
    stopped.caught_up()
    assert stopped.stop() == 0
    assert {each["level"] for each in findings(stopped)} == {"ok"}


@pytest.mark.parametrize("stopped", ["exactly_once"], indirect=True)
def test_exactly_once_only_a_cut_transaction_stands_in_the_way_of_other_settings(stopped: Relay) -> None:
    rewrite(stopped, {}, {"numbering": "of others"})
    assert {each["level"] for each in findings(stopped)} == {"ok"}
    rewrite(stopped, {}, {"commit_lsn": stopped.wal_end() - 1, "seq": 7, "numbering": "of others"})
    (found,) = errors(stopped)
    assert found["why"] == "a run ends with exit code 2"


def test_a_check_does_not_say_that_a_run_creates_a_lost_slot(stopped: Relay) -> None:
    drop(stopped)
    assert "a run creates it and" not in stopped.command("check").stdout


def test_the_position_is_not_checked_while_a_relay_reads_the_slot(stopped: Relay) -> None:
    """It moves meanwhile, and the relay has checked it."""
    stopped.start().wait_streaming()
    assert not any(each["what"].startswith("Kafka has everything") for each in findings(stopped))
