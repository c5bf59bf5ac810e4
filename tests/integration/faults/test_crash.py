"""Either side is killed at any instant while several sessions write: rows 1 and 27 of docs/guarantees.md."""

import random

from pgrelay.embedded.postgres import Postgres
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.history import cut, history
from tests.integration.faults.own_servers import own_postgres
from tests.integration.faults.workload import Workload, prepare

KILLS = 8
CRASHES = 3


def test_a_relay_killed_at_any_instant_loses_nothing(database: Database, new_relay: NewRelay) -> None:
    """Row 1: and repeats nothing that was confirmed."""
    prepare(database)
    slow = {"linger.ms": 20}  # so many records are on their way at any instant
    relay = new_relay(sink={"partitions": 3, "kafka": slow}, transactions={"memory_mb": 1})
    relay.start().wait_streaming()
    cuts = []
    with Workload(database) as load:
        for _ in range(KILLS):
            load.wait_for(random.randrange(20, 300))
            relay.kill()
            cuts.append(cut(relay))
            relay.start()
    relay.caught_up()
    assert relay.stop() == 0
    records = history(relay)
    assert not [record for record in records for cut in cuts if cut.repeats_what_was_confirmed(record)]


@own_postgres()
def test_a_server_crash_splits_no_transaction(
    server: Postgres, database: Database, new_relay: NewRelay
) -> None:
    """Row 27: the relay goes on by itself and is the same process throughout."""
    prepare(database)
    relay = new_relay(sink={"partitions": 3}, transactions={"memory_mb": 1}).start().wait_streaming()
    with Workload(database) as load:
        for _ in range(CRASHES):
            load.wait_for(random.randrange(100, 300))
            server.restart("immediate")
    relay.caught_up()
    assert relay.stop() == 0
    history(relay)
