"""Findings about topics: whether they exist, are writable, and suit the records."""

from dataclasses import replace

import pytest
from confluent_kafka import KafkaError

from pgrelay.check.findings import Finding
from pgrelay.check.kafka_topics import (
    existence,
    missing_topics,
    new_topic_configs,
    record_sizes,
    settings_unreadable,
    transaction_state_topic,
    transaction_timeout,
    uncreatable,
    unwritable,
)
from pgrelay.check.topics import WantedTopic
from pgrelay.kafka.cluster import Broker, Overview, Topic, TopicConfig
from tests.check.kafka_topics import (
    BROKER,
    COMPACTED,
    LASTING,
    LOG,
    MESSAGE,
    OFFSETS,
    ONE,
    ORDERS,
    SCHEMA,
    sink,
)


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
    assert existence(there, missing, {"orders": ONE, "log": ONE}, sink()) == Finding("ok", what)


def test_another_number_of_partitions_is_mentioned() -> None:
    finding = existence([ORDERS], [], {"orders": Topic(6, 1, 1)}, sink())
    assert finding == Finding("ok", "1 topic exists (some with 6 partitions, not 1)")


def test_topics_without_the_right_to_write_are_an_error() -> None:
    (finding,) = unwritable(["orders", "log"])
    assert finding.level == "error"
    assert "--operation Write --topic orders" in finding.cure
    assert unwritable([]) == []


def test_topics_whose_settings_are_hidden_are_a_warning_or_an_error_if_a_run_needs_them() -> None:
    (finding,) = settings_unreadable(["log"], [ORDERS, LOG])
    assert (finding.level, finding.what) == ("warning", "no right to read the settings of 1 topic: log")
    assert "--operation DescribeConfigs --topic log" in finding.cure
    (finding,) = settings_unreadable(
        ["log"], [ORDERS, LOG, WantedTopic("dead", "dead letters", keyless=True)]
    )
    assert finding.level == "error"
    assert settings_unreadable([], [ORDERS]) == []


def test_missing_topics_that_a_run_may_not_create_are_reported() -> None:
    tables, messages = missing_topics([ORDERS, LOG, MESSAGE], sink())
    assert (tables.level, tables.what) == ("error", "2 topics missing: orders, log")
    assert (messages.level, messages.what) == ("warning", "topic message is missing")


def test_a_missing_offsets_topic_is_an_error_only_with_exactly_once() -> None:
    (finding,) = missing_topics([OFFSETS], sink())
    assert (finding.level, finding.what) == ("warning", "topic offsets is missing")
    (finding,) = missing_topics([OFFSETS], sink(delivery="exactly_once"))
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
    assert new_topic_configs([ORDERS], sink(), BROKER) == {"orders": BROKER}
    ours = sink(
        topic_config={"max.message.bytes": 5, "cleanup.policy": "compact,delete", "min.insync.replicas": 2}
    )
    assert new_topic_configs([ORDERS], ours, BROKER) == {
        "orders": TopicConfig(5, 2, "compact,delete", 604_800_000)
    }
    assert new_topic_configs([SCHEMA, OFFSETS], ours, BROKER) == {
        "schema": replace(LASTING, min_in_sync=2),
        "offsets": replace(COMPACTED, min_in_sync=2),
    }


def test_invalid_numbers_are_left_to_the_cluster_to_refuse() -> None:
    ours = sink(topic_config={"max.message.bytes": "5MB", "min.insync.replicas": "", "retention.ms": "7d"})
    assert new_topic_configs([ORDERS], ours, BROKER) == {"orders": BROKER}


def test_too_few_brokers_for_the_transaction_log_are_an_error() -> None:
    overview = Overview({1: "b:9092"}, {})
    (finding,) = transaction_state_topic(broker(transaction_replicas=3), overview)
    assert finding.level == "error"
    assert "transaction.state.log.replication.factor=1" in finding.cure
    assert transaction_state_topic(broker(), overview) == []
    begun = Overview({1: "b:9092"}, {"__transaction_state": ONE})
    assert transaction_state_topic(broker(transaction_replicas=3), begun) == []


def test_a_transaction_timeout_above_the_brokers_maximum_is_an_error() -> None:
    long = sink(kafka={"transaction.timeout.ms": "900001"})
    (finding,) = transaction_timeout(broker(), long)
    assert (finding.level, finding.cure) == (
        "error",
        "set transaction.timeout.ms in sink.kafka to 900000 or less, or raise the brokers' maximum",
    )
    assert (
        transaction_timeout(broker(transaction_max_ms=900_001), long)
        == transaction_timeout(broker(), sink())
        == []
    )
    assert transaction_timeout(broker(transaction_max_ms=59_999), sink()) != []


def test_record_sizes_above_a_topics_limit_are_a_warning() -> None:
    (fine,) = record_sizes({"orders": BROKER}, sink())
    assert (fine.level, fine.what) == (
        "ok",
        "records of up to 977 KiB are sent (message.max.bytes in sink.kafka)",
    )
    (finding,) = record_sizes({"orders": BROKER}, sink(kafka={"message.max.bytes": 2_000_000}))
    assert finding.level == "warning"
    assert "max.message.bytes=2000000" in finding.cure
