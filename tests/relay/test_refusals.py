"""What is learnt from a refused record. There is no broker."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from pgrelay.config import Config
from pgrelay.errors import KafkaUnavailable, RecordRefused
from pgrelay.kafka.cluster import Cluster, TopicConfig
from pgrelay.relay.refusals import Refusals

SECTIONS: dict[str, dict[str, Any]] = {
    "source": {"dsn": "host=127.0.0.1", "slot": "s"},
    "sink": {"kafka": {"bootstrap.servers": "127.0.0.1:1"}},
    "records": {"prefix": "app"},
    "errors": {"on_record": "dead_letter"},
}


def too_large(topic: str) -> RecordRefused:
    error = RecordRefused("too large")
    error.topic = topic
    return error


async def test_nothing_is_learnt_from_a_refusal_without_a_topic() -> None:
    assert not await Refusals(Config.model_validate(SECTIONS)).learn(RecordRefused("some record"))


@pytest.mark.parametrize(
    ("given", "limits", "batch"),
    [
        ({"batch.size": 16_384}, [900_000], 16_384),
        ({"batch.size": 500_000}, [900_000, 100_000], 100_000 - 1_024),
        ({}, [900_000], 900_000 - 1_024),
        ({"message.max.bytes": 8_000_000}, [5_000_000], 1_000_000),
    ],
)
async def test_batches_are_never_larger_than_configured(
    given: dict[str, int], limits: list[int], batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {f"t{n}": TopicConfig(most, 1, "delete", -1) for n, most in enumerate(limits)}

    async def topic_config(self: Cluster, name: str) -> TopicConfig:
        return found[name]

    monkeypatch.setattr(Cluster, "topic_config", topic_config)
    sink = {"kafka": {**SECTIONS["sink"]["kafka"], **given}}
    refusals = Refusals(Config.model_validate(SECTIONS | {"sink": sink}))
    for topic in found:
        assert await refusals.learn(too_large(topic))
    assert refusals.sink_config.kafka["batch.size"] == str(batch)


async def test_a_topics_limits_are_asked_for_later_if_kafka_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the relay would end, although the topic's limits might help."""
    monkeypatch.setattr("pgrelay.kafka.cluster._TIMEOUT_S", 0.1)
    with pytest.raises(KafkaUnavailable, match="topic t0 refused a record, and does not say yet what it"):
        await Refusals(Config.model_validate(SECTIONS)).learn(too_large("t0"))


async def test_limits_that_we_may_not_see_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def topic_config(self: Cluster, name: str) -> TopicConfig:
        raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    monkeypatch.setattr(Cluster, "topic_config", topic_config)
    assert not await Refusals(Config.model_validate(SECTIONS)).learn(too_large("t0"))


async def configured(self: Cluster, name: str) -> TopicConfig:
    return TopicConfig(10_000, 1, "compact" if name == "compacted" else "delete", -1)


def refused_by_broker(topic: str, keyless: bool = False) -> RecordRefused:
    error = too_large(topic)
    error.by_broker, error.keyless = True, keyless
    return error


async def test_if_the_policy_is_to_stop_the_record_in_a_refused_batch_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Cluster, "topic_config", configured)
    refusals = Refusals(Config.model_validate(SECTIONS | {"errors": {"on_record": "stop"}}))
    assert not await refusals.learn(too_large("t")), "a single record that the producer refuses is known"
    assert await refusals.learn(refused_by_broker("t"))
    assert refusals.dead_letters is None
    # What might pass must not end the relay: it is sent alone.
    assert refusals.limits["t"].most_bytes == 10_000
    assert refusals.sink_config.kafka["batch.size"] == str(10_000 - 1_024)
    assert not await refusals.learn(refused_by_broker("t")), "it was sent alone"


@pytest.mark.parametrize("policy", ["stop", "dead_letter"])
async def test_a_topic_whose_limits_have_changed_is_learnt_again(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = [10_000, 5_000]

    async def topic_config(self: Cluster, name: str) -> TopicConfig:
        return TopicConfig(most.pop(0), 1, "delete", -1)

    monkeypatch.setattr(Cluster, "topic_config", topic_config)
    refusals = Refusals(Config.model_validate(SECTIONS | {"errors": {"on_record": policy}}))
    assert [await refusals.learn(refused_by_broker("t")) for _ in range(2)] == [True, True]
    assert refusals.limits["t"].most_bytes <= 5_000


async def test_a_topic_that_needs_no_key_did_not_refuse_for_want_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two wrong timestamps have the same code."""
    monkeypatch.setattr(Cluster, "topic_config", configured)
    refusals = Refusals(Config.model_validate(SECTIONS))
    with pytest.raises(KafkaUnavailable, match="correct the wrong clock"):
        await refusals.learn(refused_by_broker("t", keyless=True))
    assert await refusals.learn(refused_by_broker("compacted", keyless=True))
    assert refusals.limits["compacted"].keyed
