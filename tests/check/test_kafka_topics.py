"""Findings about topics: whether they exist, are writable, and suit the records."""

from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from pgrelay.check.findings import Finding
from pgrelay.check.kafka import kafka_findings, unadvertised, unreachable
from pgrelay.check.kafka_topics import (
    absent,
    leaderless,
    one_is_enough,
    out_of_sync,
    overlong,
    presence,
    single,
    sizes,
    to_come,
    transactions,
    uncreatable,
    unseen,
    unwritable,
)
from pgrelay.check.topics import WantedTopic
from pgrelay.config import SinkConfig
from pgrelay.kafka.cluster import Broker, Overview, Topic, TopicConfig

BROKER = TopicConfig(message_bytes=1_048_588, min_in_sync=1, cleanup="delete", retention_ms=604_800_000)
LASTING = TopicConfig(message_bytes=1_048_588, min_in_sync=1, cleanup="delete", retention_ms=-1)
COMPACTED = TopicConfig(message_bytes=1_048_588, min_in_sync=1, cleanup="compact", retention_ms=604_800_000)
ORDERS = WantedTopic("orders")
LOG = WantedTopic("log", keyless=True)
MESSAGE = WantedTopic("message", "messages")
SCHEMA = WantedTopic("schema", "schemas")
OFFSETS = WantedTopic("offsets", "offsets")
ONE = Topic(partitions=1, replicas=1, in_sync=1)
THREE = {1: "b1:9092", 2: "b2:9092", 3: "b3:9092"}


def sink(**keys: Any) -> SinkConfig:
    options = {"bootstrap.servers": "b:9092", **keys.pop("kafka", {})}
    return SinkConfig(kafka=options, **keys)


def broker(transaction_replicas: int = 1, transaction_max_ms: int = 900_000) -> Broker:
    return Broker(BROKER, transaction_replicas, transaction_max_ms)


@pytest.mark.parametrize(
    ("there", "missing", "what"),
    [
        ([ORDERS, LOG], [], "2 topics exist"),
        ([], [ORDERS, LOG], "0 of 2 topics exist; a run creates orders, log, with 1 partition"),
    ],
)
def test_existing_and_missing_topics_are_listed(
    there: list[WantedTopic], missing: list[WantedTopic], what: str
) -> None:
    assert presence(there, missing, {"orders": ONE, "log": ONE}, sink()) == Finding("ok", what)


def test_another_number_of_partitions_is_mentioned() -> None:
    finding = presence([ORDERS], [], {"orders": Topic(6, 1, 1)}, sink())
    assert finding == Finding("ok", "1 topic exists (some with 6 partitions, not 1)")


def test_topics_without_the_right_to_write_are_an_error() -> None:
    (finding,) = unwritable(["orders", "log"])
    assert finding.level == "error"
    assert "--operation Write --topic orders" in finding.cure
    assert unwritable([]) == []


def test_topics_whose_settings_are_hidden_are_a_warning_or_an_error_if_a_run_needs_them() -> None:
    (finding,) = unseen(["log"], [ORDERS, LOG])
    assert (finding.level, finding.what) == ("warning", "no right to read the settings of 1 topic: log")
    assert "--operation DescribeConfigs --topic log" in finding.cure
    (finding,) = unseen(["log"], [ORDERS, LOG, WantedTopic("dead", "dead letters", keyless=True)])
    assert finding.level == "error"
    assert unseen([], [ORDERS]) == []


def test_missing_topics_that_a_run_may_not_create_are_reported() -> None:
    tables, messages = absent([ORDERS, LOG, MESSAGE], sink())
    assert (tables.level, tables.what) == ("error", "2 topics missing: orders, log")
    assert (messages.level, messages.what) == ("warning", "topic message is missing")


def test_a_missing_offsets_topic_is_an_error_only_with_exactly_once() -> None:
    (finding,) = absent([OFFSETS], sink())
    assert (finding.level, finding.what) == ("warning", "topic offsets is missing")
    (finding,) = absent([OFFSETS], sink(delivery="exactly_once"))
    assert finding.level == "error"


@pytest.mark.parametrize(
    ("code", "cure"),
    [
        (KafkaError.INVALID_REPLICATION_FACTOR, "set sink.replication_factor (now 3) to 2 or less"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "--operation Create --operation Write --topic orders"),
        (KafkaError.TOPIC_EXCEPTION, "records.prefix"),
        (KafkaError.INVALID_CONFIG, "sink.topic_config"),
    ],
)
def test_topics_that_the_cluster_would_not_create_are_an_error(code: int, cure: str) -> None:
    refusals = {"orders": KafkaError(code, "because"), "log": KafkaError(code, "because")}
    (finding,) = uncreatable(refusals, sink(replication_factor=3), brokers=2)
    assert finding.level == "error"
    assert finding.what == "2 topics can't be created: orders, log"
    assert finding.why == "because"
    assert cure in finding.cure


@pytest.mark.parametrize(
    ("text", "brokers"),
    [
        ("All brokers are currently fenced", 0),
        ("The target replication factor of 3 cannot be reached because only 2 broker(s) are registered", 3),
    ],
    ids=["all fenced", "one shuts down"],
)
def test_brokers_that_are_away_are_not_blamed_on_the_configuration(text: str, brokers: int) -> None:
    refusal = KafkaError(KafkaError.INVALID_REPLICATION_FACTOR, text)
    (finding,) = uncreatable({"orders": refusal}, sink(replication_factor=3), brokers)
    assert finding.cure == "a run tries again by itself; if it does not pass, look at the brokers' logs"


def test_a_topic_that_exists_meanwhile_is_no_error() -> None:
    assert uncreatable({"orders": KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)}, sink(), 1) == []


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.NOT_CONTROLLER])
def test_a_controller_that_does_not_answer_refuses_nothing(code: int) -> None:
    """It hangs, or another takes over: a run waits for that."""
    (finding,) = uncreatable({"orders": KafkaError(code), "users": KafkaError(code)}, sink(), 3)
    assert finding.level == "warning"
    assert finding.what == "no answer whether 2 topics can be created: orders, users"
    assert finding.cure == "a run tries again by itself; check again later"


def test_future_topics_have_the_brokers_defaults_except_for_our_options() -> None:
    assert to_come([ORDERS], sink(), BROKER) == {"orders": BROKER}
    ours = sink(
        topic_config={"max.message.bytes": 5, "cleanup.policy": "compact,delete", "min.insync.replicas": 2}
    )
    assert to_come([ORDERS], ours, BROKER) == {"orders": TopicConfig(5, 2, "compact,delete", 604_800_000)}
    assert to_come([SCHEMA, OFFSETS], ours, BROKER) == {
        "schema": replace(LASTING, min_in_sync=2),
        "offsets": replace(COMPACTED, min_in_sync=2),
    }


def test_invalid_numbers_are_left_to_the_cluster_to_refuse() -> None:
    ours = sink(topic_config={"max.message.bytes": "5MB", "min.insync.replicas": "", "retention.ms": "7d"})
    assert to_come([ORDERS], ours, BROKER) == {"orders": BROKER}


def test_too_few_brokers_for_the_transaction_log_are_an_error() -> None:
    overview = Overview({1: "b:9092"}, {})
    (finding,) = transactions(broker(transaction_replicas=3), overview)
    assert finding.level == "error"
    assert "transaction.state.log.replication.factor=1" in finding.cure
    assert transactions(broker(), overview) == []
    begun = Overview({1: "b:9092"}, {"__transaction_state": ONE})
    assert transactions(broker(transaction_replicas=3), begun) == []


def test_a_transaction_timeout_above_the_brokers_maximum_is_an_error() -> None:
    long = sink(kafka={"transaction.timeout.ms": "900001"})
    (finding,) = overlong(broker(), long)
    assert (finding.level, finding.cure) == (
        "error",
        "set transaction.timeout.ms in sink.kafka to 900000 or less, or raise the brokers' maximum",
    )
    assert overlong(broker(transaction_max_ms=900_001), long) == overlong(broker(), sink()) == []
    assert overlong(broker(transaction_max_ms=59_999), sink()) != []


def test_topics_with_too_few_replicas_in_sync_are_an_error() -> None:
    two = TopicConfig(1_048_588, 2, "delete", -1)
    there = Overview(THREE, {"orders": ONE, "log": ONE})
    (finding,) = out_of_sync({"orders": two, "log": BROKER}, there, sink())
    assert finding.level == "error"
    assert finding.what.endswith(": orders")
    assert out_of_sync({"new": two}, there, sink(replication_factor=2)) == []
    assert len(out_of_sync({"new": two}, there, sink())) == 1


def test_future_topics_get_no_replicas_on_absent_brokers() -> None:
    """When asked whether it would create the topic, the cluster counts those brokers too."""
    two = TopicConfig(1_048_588, 2, "delete", -1)
    alone = Overview({1: "b:9092"}, {})
    (finding,) = out_of_sync({"new": two}, alone, sink(replication_factor=3))
    assert finding.what.endswith(": new")


def test_topics_without_a_leader_are_an_error() -> None:
    """The last in-sync replica stays listed, whether its broker is there or not."""
    two = TopicConfig(1_048_588, 2, "delete", -1)
    there = {"orders": replace(ONE, led=False), "log": ONE}
    (finding,) = leaderless(["orders", "log", "new"], there)
    assert (finding.level, finding.what) == ("error", "1 topic with a partition that no broker leads: orders")
    assert out_of_sync({"orders": two}, Overview(THREE, there), sink()) == []
    assert leaderless(["log"], there) == []


def test_topics_that_one_of_several_replicas_may_acknowledge_are_a_warning() -> None:
    two = TopicConfig(1_048_588, 2, "delete", -1)
    there = Overview(THREE, {"orders": Topic(1, 3, 3), "log": ONE, "message": Topic(1, 2, 1)})
    (finding,) = one_is_enough({"orders": two, "log": BROKER, "message": BROKER}, there, sink())
    assert finding.level == "warning"
    assert finding.what.endswith(": message")
    assert "--topic message --add-config min.insync.replicas=2" in finding.cure
    assert (
        one_is_enough({"new": two, "old": BROKER}, Overview(THREE, {"old": ONE}), sink(replication_factor=3))
        == []
    )
    assert len(one_is_enough({"new": BROKER}, Overview(THREE, {}), sink(replication_factor=3))) == 1


def test_topics_with_one_replica_where_more_are_possible_are_a_warning() -> None:
    overview = Overview(THREE, {"orders": ONE, "log": Topic(1, 3, 3)})
    (finding,) = single({"orders": BROKER, "log": BROKER, "new": BROKER}, overview, sink())
    assert (finding.level, finding.what) == ("warning", "2 topics with one replica on 3 brokers: orders, new")
    assert finding.cure.startswith("sink.replication_factor: 3 ")
    (existing,) = single({"orders": BROKER, "new": BROKER}, overview, sink(replication_factor=3))
    assert existing.what == "1 topic with one replica on 3 brokers: orders"
    assert single({"new": BROKER}, Overview({1: "b:9092"}, {}), sink()) == []


def test_record_sizes_above_a_topics_limit_are_a_warning() -> None:
    (fine,) = sizes({"orders": BROKER}, sink())
    assert (fine.level, fine.what) == (
        "ok",
        "records of up to 977 KiB are sent (message.max.bytes in sink.kafka)",
    )
    (finding,) = sizes({"orders": BROKER}, sink(kafka={"message.max.bytes": 2_000_000}))
    assert finding.level == "warning"
    assert "max.message.bytes=2000000" in finding.cure


@pytest.mark.parametrize(
    ("code", "text", "cure"),
    [
        (KafkaError._TRANSPORT, "b:9092/bootstrap: Connect failed: Connection refused", "start the broker"),
        (KafkaError._RESOLVE, "Failed to resolve 'b:9092'", "correct the host"),
        (KafkaError._AUTHENTICATION, "SASL authentication error", "sasl.username"),
        (KafkaError._AUTHENTICATION, "broker's supported mechanisms: (n/a)", "check the broker"),
        (
            KafkaError._AUTHENTICATION,
            "Failed to acquire SASL OAUTHBEARER token: Could not resolve host: idp",
            "start the server at sasl.oauthbearer.token.endpoint.url",
        ),
        (KafkaError._SSL, "SSL handshake failed", "ssl.*"),
        (KafkaError._TRANSPORT, "SSL handshake failed: Disconnected", "security.protocol"),
        (KafkaError._BAD_MSG, "Invalid response size 1157627904", "a Kafka listener"),
    ],
)
def test_the_reason_why_kafka_does_not_answer_is_named(code: int, text: str, cure: str) -> None:
    complaint = KafkaError(code, f"{text} (after 3ms in state CONNECT, 2 identical error(s) suppressed)")
    finding = unreachable(complaint, KafkaError(KafkaError._TRANSPORT), "b:9092")
    assert (finding.level, finding.what) == ("error", "Kafka does not answer at b:9092")
    assert finding.why == text
    assert cure in finding.cure


def test_for_a_broker_that_disconnects_silently_the_cure_is_security_protocol() -> None:
    finding = unreachable(None, KafkaError(KafkaError._TRANSPORT), "b:9092")
    assert "security.protocol" in finding.cure


def test_a_wrong_advertised_address_is_named() -> None:
    finding = unadvertised(1, "kafka:9092")
    text = "ssl://kafka:9092/1: Connect to ipv4#10.0.0.1:9092 failed: Connection refused"
    failure = KafkaError(KafkaError._TRANSPORT)
    assert unreachable(KafkaError(KafkaError._TRANSPORT, text), failure, "b:9092") == finding
    assert finding.what == "broker 1 advertises kafka:9092, but nothing answers there"
    assert "advertised.listeners" in finding.cure


async def test_a_client_error_does_not_show_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgrelay.kafka.cluster._TIMEOUT_S", 0.0)  # nobody is there
    options = {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "hunter2",
    }
    (finding,) = await kafka_findings(SinkConfig(kafka=options), (), truncates=False)
    assert "Unrecognized sasl.oauthbearer.config" in finding.why
    assert "hunter2" not in f"{finding}"
