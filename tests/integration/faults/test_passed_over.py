"""A batch that a broker refuses, and the next one that it takes: row 2 of docs/guarantees.md.

librdkafka concludes from the second answer that the first batch is written too, which it is not.
"""

import pytest

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.moved_leader import MovedLeader
from tests.integration.faults.outcomes import WAITING
from tests.integration.proxy import Proxy

SINGLY = {"batch.num.messages": 1}


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_records_that_the_broker_passes_over_are_sent_again(
    database: Database, new_relay: NewRelay, kafka_proxy: Proxy, delivery: str
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    kafka = {"bootstrap.servers": f"127.0.0.1:{kafka_proxy.port}", **SINGLY}
    relay = new_relay(sink={"kafka": kafka, "partitions": 1, "delivery": delivery}).start().wait_streaming()
    moved = kafka_proxy.intercept = MovedLeader(relay.topic("t"))
    database.execute("INSERT INTO t SELECT generate_series(1, 5)")
    relay.caught_up()
    assert moved.refused
    ids = relay.ids("t")
    if delivery == "at_least_once":
        # The others of the transaction come twice.
        assert ids[:-5] == [2, 3, 4, 5][: len(ids) - 5]
        ids = ids[-5:]
    assert ids == [1, 2, 3, 4, 5]
    assert relay.events(WAITING)


def test_one_request_at_a_time_lets_the_broker_pass_nothing_over(
    new_relay: NewRelay, database: Database, kafka_proxy: Proxy
) -> None:
    """As docs/operations.md says. The next batch is sent only once the first has its answer."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    kafka = {"bootstrap.servers": f"127.0.0.1:{kafka_proxy.port}", **SINGLY, "max.in.flight": 1}
    relay = new_relay(sink={"kafka": kafka, "partitions": 1}).start().wait_streaming()
    moved = kafka_proxy.intercept = MovedLeader(relay.topic("t"), at_once=True)
    database.execute("INSERT INTO t SELECT generate_series(1, 5)")
    relay.caught_up()
    assert moved.refused
    assert relay.ids("t") == [1, 2, 3, 4, 5]
    assert not relay.events(WAITING)
