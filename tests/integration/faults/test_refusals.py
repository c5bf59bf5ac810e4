"""Kafka refuses large records, missing topics, or access: rows 4 and 5 of docs/guarantees.md."""

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourceType,
)

from pgrelay.lsn import format_lsn, parse_lsn
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.kafka_admin import ACLS, Acls, allow_records_of
from tests.integration.faults.outcomes import UNDELIVERABLE, WAITING, WRONG, last_words
from tests.integration.faults.own_servers import own_kafka
from tests.integration.relays import Relay
from tests.integration.servers import KafkaServer
from tests.integration.topics import create_topic, delete_topic

TABLE = "CREATE TABLE t (id int PRIMARY KEY, body text)"
# So soon does the producer give up a topic that is gone.
SOON = {"topic.metadata.propagation.max.ms": 1000, "topic.metadata.refresh.interval.ms": 500}
SASL = {
    "listener.security.protocol.map": "DIRECT:PLAINTEXT,PROXIED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "listener.name.proxied.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.proxied.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_relay="right";'
    ),
}


def body(size: int) -> str:
    """An SQL expression for this many bytes, which compress little."""
    return f"(SELECT string_agg(md5(i::text), '') FROM generate_series(1, {size} / 32) i)"


# The refusing side: the largest record that the topic accepts, and the size of the row.
TOO_LARGE = {"producer": (3_000_000, 1_500_000), "broker": (10_000, 100_000)}


@pytest.mark.parametrize(("limit", "size"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_record_that_is_too_large_is_not_skipped(
    database: Database, kafka: KafkaServer, new_relay: NewRelay, limit: int, size: int
) -> None:
    """Row 4: a restart does not skip it either; once the limit allows it, everything after it follows."""
    database.execute(TABLE)
    relay = new_relay()
    create_topic(kafka.bootstrap, relay.topic("t"), max_message_bytes=str(limit))
    relay.start().wait_streaming()
    database.execute(f"INSERT INTO t VALUES (1, 'small'), (2, {body(size)}), (3, 'small')")
    database.execute("INSERT INTO t VALUES (4, 'small')")
    words = last_words(relay, UNDELIVERABLE)
    assert last_words(relay.start(), UNDELIVERABLE) == words
    stopped_at = relay.confirmed_lsn()

    allow_records_of(3_000_000, kafka.bootstrap, relay.topic("t"))
    relay.sections["sink"] = {"kafka": {"message.max.bytes": 3_000_000}}
    relay.start().wait_streaming()
    relay.caught_up()
    records = relay.records("t")
    assert [record.json_key["id"] for record in records][-4:] == [1, 2, 3, 4]
    commit_lsn = records[-2].json["source"]["commit_lsn"]
    assert stopped_at < commit_lsn
    assert f"of topic {relay.topic('t')}, of the transaction committed at {format_lsn(commit_lsn)}," in words
    assert ' with key {"id":2} can' in words


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_refused_position_ends_the_relay_and_names_no_transaction(
    database: Database, kafka: KafkaServer, new_relay: NewRelay, delivery: str
) -> None:
    """Behind it everything is in Kafka: sending transactions one by one would never end, and skip none."""
    database.execute(TABLE)
    relay = new_relay(sink={"delivery": delivery}).start().wait_streaming()
    allow_records_of(100, kafka.bootstrap, f"{relay.prefix}.offsets")
    database.execute("INSERT INTO t VALUES (1, 'small')")
    words = last_words(relay, UNDELIVERABLE)
    assert f"a record of topic {relay.prefix}.offsets with key " in words
    assert "of the transaction" not in words
    assert "to_skip" not in relay.log_text
    allow_records_of(1_000_000, kafka.bootstrap, f"{relay.prefix}.offsets")
    relay.start().wait_streaming()
    relay.caught_up()
    assert set(relay.ids("t")) == {1}


@pytest.mark.parametrize(("limit", "size"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_transactions_before_a_record_that_is_too_large_are_confirmed(
    database: Database, kafka: KafkaServer, new_relay: NewRelay, limit: int, size: int
) -> None:
    """Row 4: although everything is read at once. Otherwise every restart would send them again."""
    database.execute(TABLE)
    database.execute("CREATE TABLE large (id int PRIMARY KEY, body text)")
    # So all rows of t are one batch: else it is left to chance whether 4 is sent before the relay ends.
    relay = new_relay(sink={"kafka": {"linger.ms": 50}}).start().wait_streaming()
    assert relay.stop() == 0
    create_topic(kafka.bootstrap, relay.topic("large"), max_message_bytes=str(limit))
    for number in range(1, 4):
        database.execute(f"INSERT INTO t VALUES ({number})")
    database.execute(f"INSERT INTO t VALUES (4); INSERT INTO large VALUES (1, {body(size)})")
    database.execute("INSERT INTO t VALUES (5)")
    last_words(relay.start(), UNDELIVERABLE)
    records = relay.records("t")
    assert [record.json_key["id"] for record in records][:4] == [1, 2, 3, 4]
    assert [relay.ids("t").count(number) for number in range(1, 4)] == [1, 1, 1]
    before, refused = (record.json["source"]["commit_lsn"] for record in records[2:4])
    assert before < relay.confirmed_lsn() < refused


def test_a_batch_that_is_too_large_is_sent_in_smaller_ones(
    database: Database, kafka: KafkaServer, new_relay: NewRelay
) -> None:
    """Row 4: each record is small enough, but the broker's limit applies to the batch."""
    database.execute(TABLE)
    relay = new_relay(sink={"kafka": {"linger.ms": 50}})
    create_topic(kafka.bootstrap, relay.topic("t"), max_message_bytes="10000")
    relay.start().wait_streaming()
    database.execute("INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 1000) i")
    relay.caught_up()
    assert relay.ids("t")[-1000:] == list(range(1, 1001))
    (told,) = relay.events("a topic refused a record; what it refused is sent again in smaller batches")
    assert "lower batch.size" in told["reason"]


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("kind", ["too large", "without key"])
def test_of_a_batch_of_several_transactions_the_right_one_is_named(
    database: Database, kafka: KafkaServer, new_relay: NewRelay, kind: str, delivery: str
) -> None:
    """Row 4: a broker refuses them all, and what it does not name must not be given up."""
    database.execute(TABLE)
    relay = new_relay(sink={"delivery": delivery}).start().wait_streaming()
    assert relay.stop() == 0
    refusing = {"max_message_bytes": "10000"} if kind == "too large" else {"cleanup_policy": "compact"}
    create_topic(kafka.bootstrap, relay.topic("t"), 1, **refusing)
    for number in range(1, 4):
        database.execute(f"INSERT INTO t VALUES ({number})")
    wrong = f"INSERT INTO t VALUES (4, {body(100_000)})" if kind == "too large" else "TRUNCATE t; TRUNCATE t"
    database.execute(wrong)
    database.execute("INSERT INTO t VALUES (5)")
    words = last_words(relay.start(), UNDELIVERABLE)
    assert relay.ids("t", 3)[-3:] == [1, 2, 3]
    before = relay.records("t")[-1].json["source"]["commit_lsn"]
    (last,) = [event for event in relay.log if "exit_code" in event]
    named = parse_lsn(last["to_skip"].split()[-1])
    assert before < relay.confirmed_lsn() <= named
    assert f"of the transaction committed at {format_lsn(named)}," in words
    assert relay.command("skip", "--lsn", format_lsn(named)).returncode == 0
    relay.start().wait_streaming()
    relay.caught_up()
    assert relay.ids("t")[-1] == 5
    assert sorted(set(relay.ids("t"))) == [1, 2, 3, 5]


def test_nothing_overtakes_a_refused_record(
    database: Database, kafka: KafkaServer, new_relay: NewRelay
) -> None:
    """Row 4: a consumer that skips repetitions would take it for one, and never have it."""
    database.execute(TABLE)
    relay = new_relay(sink={"kafka": {"batch.size": 5000}}).start().wait_streaming()
    assert relay.stop() == 0
    create_topic(kafka.bootstrap, relay.topic("t"), max_message_bytes="10000")
    database.execute(f"INSERT INTO t VALUES (1, 'small'), (2, {body(100_000)})")
    database.execute("INSERT INTO t SELECT i, md5(i::text) FROM generate_series(3, 3000) i")
    last_words(relay.start(), UNDELIVERABLE)
    assert set(relay.ids("t")) <= {1}
    allow_records_of(1_000_000, kafka.bootstrap, relay.topic("t"))
    relay.start().wait_streaming()
    relay.caught_up()
    assert list(dict.fromkeys(relay.ids("t"))) == list(range(1, 3001))


@own_kafka(**{"auto.create.topics.enable": "true"})
def test_a_missing_topic_that_we_may_not_create_ends_the_relay(
    database: Database, new_relay: NewRelay, kafka: KafkaServer
) -> None:
    """Row 5: although the broker would create it by itself, with its own settings."""
    database.execute(TABLE)
    relay = new_relay(sink={"create_topics": False})
    assert f"topic {relay.prefix}.schema does not exist" in last_words(relay.start(), WRONG)
    create_topic(kafka.bootstrap, f"{relay.prefix}.schema")
    relay.start().wait_streaming()
    database.execute("INSERT INTO t VALUES (1)")
    assert f"topic {relay.topic('t')} does not exist" in last_words(relay, WRONG)
    client = AdminClient({"bootstrap.servers": kafka.bootstrap})
    assert relay.topic("t") not in client.list_topics(timeout=60).topics


def test_a_topic_created_while_we_run_is_found(
    database: Database, new_relay: NewRelay, kafka: KafkaServer
) -> None:
    """Row 5: it is found when it is needed."""
    database.execute(TABLE)
    relay = new_relay(sink={"create_topics": False})
    create_topic(kafka.bootstrap, f"{relay.prefix}.schema")
    relay.start().wait_streaming()
    create_topic(kafka.bootstrap, relay.topic("t"))
    database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    assert relay.ids("t") == [1]


def deprived(relay: Relay) -> Relay:
    """A relay whose topic was deleted between two rows, of which the second has come."""
    relay.database.execute(TABLE)
    relay.start().wait_streaming()
    relay.database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    delete_topic(relay.kafka.bootstrap, relay.topic("t"))
    relay.database.execute("INSERT INTO t VALUES (2)")
    relay.caught_up()
    assert relay.ids("t") == [2]
    return relay


@own_kafka(**{"auto.create.topics.enable": "true"})
def test_a_topic_deleted_while_we_run_is_recreated(new_relay: NewRelay, kafka: KafkaServer) -> None:
    """Row 5: we re-create it, not the broker, and nothing is confirmed that it did not receive."""
    relay = deprived(new_relay(sink={"kafka": SOON, "partitions": 3}))
    reason = relay.events(WAITING)[0]["reason"]
    assert f"topic {relay.topic('t')} is gone" in reason
    assert reason.endswith("if it was deleted, its earlier records are lost: copy its tables again")
    client = AdminClient({"bootstrap.servers": kafka.bootstrap})
    assert len(client.list_topics(timeout=60).topics[relay.topic("t")].partitions) == 3


@own_kafka()
def test_a_topic_deleted_while_we_run_is_reported_exactly_once(new_relay: NewRelay) -> None:
    """Row 5: Kafka does not say which topic a transaction lacks, and the client asks only now and then."""
    relay = deprived(new_relay(sink={"delivery": "exactly_once", "kafka": SOON}))
    gone = [event["reason"] for event in relay.events(WAITING) if "is gone" in event["reason"]]
    assert gone[0].endswith("if it was deleted, its earlier records are lost: copy its tables again")


def test_a_topic_that_can_not_be_created_ends_the_relay(new_relay: NewRelay) -> None:
    """Row 5: here because there are too few brokers."""
    relay = new_relay(sink={"replication_factor": 3}).start()
    words = last_words(relay, WRONG)
    assert f"topic {relay.prefix}.schema can't be created" in words
    assert "replication_factor" in words


@own_kafka(**ACLS)
def test_denied_rights_end_the_relay_until_they_are_granted(
    database: Database, relay: Relay, kafka: KafkaServer
) -> None:
    """Row 5: the rights to create and to write. Once they are granted, the relay goes on where it was."""
    database.execute(TABLE)
    topic = relay.topic("t")
    acls = Acls(kafka.bootstrap)
    acls.add(ResourceType.BROKER, "kafka-cluster", AclOperation.ALL, AclPermissionType.ALLOW)
    acls.add(ResourceType.BROKER, "kafka-cluster", AclOperation.CREATE, AclPermissionType.DENY)
    acls.add(ResourceType.TOPIC, topic, AclOperation.CREATE, AclPermissionType.DENY)
    database.execute("INSERT INTO t VALUES (1)")
    assert f"topic {topic} can't be created: Authorization failed" in last_words(relay, WRONG)
    acls.remove_all()
    create_topic(kafka.bootstrap, topic)
    acls.add(ResourceType.TOPIC, topic, AclOperation.WRITE, AclPermissionType.DENY)
    assert f"Kafka refuses writes to topic {topic}" in last_words(relay.start(), WRONG)
    relay.sections["sink"] = {"delivery": "exactly_once"}
    database.execute("INSERT INTO t SELECT generate_series(2, 5000)")
    assert "; grant WRITE and DESCRIBE on" in last_words(relay.start(), WRONG)
    acls.remove_all()
    relay.start().wait_streaming()
    relay.caught_up()
    assert relay.ids("t") == list(range(1, 5001))


@own_kafka(**SASL)
def test_a_wrong_kafka_password_ends_the_relay(new_relay: NewRelay, kafka: KafkaServer) -> None:
    """Row 40: here the broker's password."""
    assert kafka.embedded is not None
    options = {
        "bootstrap.servers": f"127.0.0.1:{kafka.embedded.proxy_target_port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "relay",
        "sasl.password": "wrong",
    }
    words = last_words(new_relay(sink={"kafka": options}).start(), WRONG)
    assert "Invalid username or password; correct the credentials in sink.kafka" in words
