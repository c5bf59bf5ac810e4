"""A reset while Kafka does not let us read, or delete, the slot's position: row 10 of docs/guarantees.md."""

import json

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AclPermissionType,
    ResourceType,
)

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.kafka_admin import ACLS, Acls
from tests.integration.faults.once import TABLE, ids, offsets_topic
from tests.integration.faults.outcomes import WRONG
from tests.integration.faults.own_servers import own_kafka
from tests.integration.faults.slots import exists, wait_free
from tests.integration.relays import Relay
from tests.integration.servers import KafkaServer

GUARDED = own_kafka(**ACLS)


@pytest.fixture(params=["at_least_once", "exactly_once"])
def stopped(request: pytest.FixtureRequest, database: Database, new_relay: NewRelay) -> Relay:
    """A relay of table t that was stopped after the row of id 0."""
    database.execute(TABLE)
    relay = new_relay(sink={"delivery": request.param}).start().wait_streaming()
    database.execute("INSERT INTO t VALUES (0)")
    relay.caught_up()
    assert relay.stop() == 0
    wait_free(database, relay.prefix)
    return relay


def deny(kafka: KafkaServer, topic: str, operation: AclOperation) -> Acls:
    acls = Acls(kafka.bootstrap)
    acls.add(ResourceType.BROKER, "kafka-cluster", AclOperation.ALL, AclPermissionType.ALLOW)
    acls.add(ResourceType.TOPIC, topic, AclOperation.ALL, AclPermissionType.ALLOW)
    acls.add(ResourceType.TOPIC, topic, operation, AclPermissionType.DENY)
    return acls


@GUARDED
@pytest.mark.parametrize("stopped", ["exactly_once"], indirect=True)
def test_a_position_that_can_not_be_read_keeps_the_slot(stopped: Relay, kafka: KafkaServer) -> None:
    acls = deny(kafka, offsets_topic(stopped), AclOperation.READ)
    done = stopped.command("reset")
    assert done.returncode == WRONG
    assert f"Kafka does not let us read topic {offsets_topic(stopped)}" in done.stderr
    assert exists(stopped.database, stopped.prefix)
    acls.remove_all()
    assert stopped.command("reset").returncode == 0
    assert not exists(stopped.database, stopped.prefix)


@GUARDED
@pytest.mark.parametrize("stopped", ["at_least_once"], indirect=True)
def test_a_position_that_no_run_reads_stays(stopped: Relay, kafka: KafkaServer) -> None:
    """At least once does without the right to read it."""
    acls = deny(kafka, offsets_topic(stopped), AclOperation.READ)
    done = stopped.command("reset")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"slot {stopped.prefix} dropped, and any position of it in Kafka stays" in done.stdout
    acls.add(ResourceType.TOPIC, stopped.topic("t"), AclOperation.ALL, AclPermissionType.ALLOW)
    acls.add(ResourceType.TOPIC, f"{stopped.prefix}.schema", AclOperation.ALL, AclPermissionType.ALLOW)
    stopped.start().wait_streaming()
    stopped.database.execute("INSERT INTO t VALUES (1)")
    stopped.caught_up()
    assert ids(stopped) == [0, 1]


@GUARDED
def test_a_position_that_can_not_be_deleted_is_an_error_until_it_can(
    stopped: Relay, kafka: KafkaServer
) -> None:
    acls = deny(kafka, offsets_topic(stopped), AclOperation.WRITE)
    done = stopped.command("reset")
    assert done.returncode == WRONG
    topic = offsets_topic(stopped)
    assert (
        f"slot {stopped.prefix} is dropped, but its position in topic {topic} is not forgotten: "
        in done.stderr
    )
    assert "; grant WRITE and DESCRIBE on it; then run pgrelay reset again, or " in done.stderr
    acls.remove_all()
    done = stopped.command("reset")
    assert f"slot {stopped.prefix} was gone already, and its position in Kafka is forgotten" in done.stdout


@pytest.mark.parametrize("stopped", ["exactly_once"], indirect=True)
def test_a_position_behind_an_open_transaction_keeps_the_slot(stopped: Relay) -> None:
    """Readers of committed records can't tell what is behind it."""
    producer = Producer({"bootstrap.servers": stopped.kafka.bootstrap, "transactional.id": stopped.prefix})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(offsets_topic(stopped), json.dumps({"lsn": 1}), json.dumps({"slot": "other"}))
    producer.flush()
    done = stopped.command("reset")
    assert done.returncode == 1
    assert "another relay has a transaction open there" in done.stderr
    assert "; nothing was changed: run it again once that is over" in done.stderr
    assert exists(stopped.database, stopped.prefix)
    producer.abort_transaction()
    assert stopped.command("reset").returncode == 0
