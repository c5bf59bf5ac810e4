"""The relay is killed repeatedly under load, and the servers crash now and then: rows 1, 22 and 27.

Three sessions write; transactions are streamed before they commit, spill to disk, are prepared, or are rolled
back in part. In the end the tables and the counters in them show whether a change was lost, repeated or out
of order: see `history`. PGRELAY_TEST_KILLS is the number of kills of each relay; PGRELAY_TEST_SEED repeats a
run's choices.
"""

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pgrelay.embedded.kafka import Kafka
from pgrelay.embedded.postgres import Postgres
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.history import Cut, cut, ends, history
from tests.integration.faults.once import assert_each_change_is_there_once, exactly_once
from tests.integration.faults.own_servers import own_kafka, own_postgres
from tests.integration.faults.workload import Workload, prepare
from tests.integration.relays import Relay
from tests.seeds import SEED

KILLS = int(os.environ.get("PGRELAY_TEST_KILLS", "4"))
TIMEOUT = 300 + 20 * KILLS  # seconds

SETTINGS: dict[str, dict[str, Any]] = {"source": {"two_phase": True}, "transactions": {"memory_mb": 1}}

pytestmark = pytest.mark.timeout(TIMEOUT)


@own_postgres()
@own_kafka()
def test_at_least_once_loses_nothing_and_repeats_only_unconfirmed_changes(
    server: Postgres, broker: Kafka, database: Database, new_relay: NewRelay
) -> None:
    """Or those whose confirmation the server forgot when it crashed."""
    prepare(database)
    slow = {"linger.ms": 20, "reconnect.backoff.max.ms": 200}  # so many records are always on their way
    relay = new_relay(sink={"partitions": 3, "kafka": slow}, **SETTINGS).start().wait_streaming()
    cuts: list[Cut] = []

    def crash_server() -> None:
        now = ends(relay)
        cuts[:] = [cut if cut.until is not None else replace(cut, until=now) for cut in cuts]
        server.restart("immediate")

    def kill() -> None:
        relay.kill()
        cuts.append(cut(relay))

    kill_again_and_again(relay, kill, (crash_server, lambda: crash(broker)))
    records = history(relay)
    assert len(cuts) == KILLS
    assert not [record for record in records for cut in cuts if cut.repeats_what_was_confirmed(record)]


@own_postgres()
@own_kafka()
def test_exactly_once_shows_readers_of_committed_records_no_repeats(
    server: Postgres, broker: Kafka, database: Database, new_relay: NewRelay
) -> None:
    prepare(database)
    relay = exactly_once(new_relay, None, **SETTINGS).start().wait_streaming()
    kill_again_and_again(relay, relay.kill, (lambda: server.restart("immediate"), lambda: crash(broker)))
    assert_each_change_is_there_once(relay)


def crash(broker: Kafka) -> None:
    broker.kill()
    broker.start()


def kill_again_and_again(
    relay: Relay, kill: Callable[[], None], crashes: Sequence[Callable[[], None]]
) -> None:
    """Kill the relay, and one time in four each of the servers, while the relay runs or when it is dead.

    Three times in four the relay has made progress before; otherwise it may still be starting. A server that
    crashes forgets confirmations since the last checkpoint. In the end the relay has caught up and is
    stopped.
    """
    print(f"PGRELAY_TEST_SEED={SEED}")
    chance = random.Random(SEED)
    with Workload(relay.database, two_phase=True) as load:
        for _ in range(KILLS):
            if chance.random() < 0.75:
                wait_moved(relay)
            load.wait_for(chance.randrange(1, 100))
            if chance.random() < 0.5:
                relay.database.execute("CHECKPOINT")
            steps = [kill, *(crash for crash in crashes if chance.random() < 0.25)]
            chance.shuffle(steps)
            for step in steps:
                step()
            relay.start()
    relay.caught_up(timeout=TIMEOUT / 2)
    assert relay.stop() == 0


def wait_moved(relay: Relay) -> None:
    """Return once the slot has moved."""
    before = relay.confirmed_lsn()
    relay.wait_for(lambda: relay.confirmed_lsn() > before, "the slot to move", 120)
