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
    return RecordRefused("too large", topic, commit_lsn=0x700)


async def learnt(refusals: Refusals, error: RecordRefused) -> bool:
    """Whether something was learnt from an error that ended a serial session."""
    return await refusals.adapt_to(error, serial=True, read_lsn=0)


async def test_no_care_makes_a_position_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written behind the transactions: each session would be told to take more care, for ever."""

    async def topic_config(self: Cluster, name: str) -> TopicConfig:
        return TopicConfig(100, 1, "compact", -1)

    monkeypatch.setattr(Cluster, "topic_config", topic_config)
    refusals = Refusals(Config.model_validate(SECTIONS | {"errors": {"on_record": "stop"}}))
    error = too_large("app.offsets")
    error.by_broker = True
    assert await refusals.adapt_to(error, serial=False, read_lsn=900), "once with smaller batches"
    assert refusals.serial_until == 0
    assert not await refusals.adapt_to(error, serial=False, read_lsn=900)


async def test_nothing_is_learnt_from_a_refusal_without_a_topic() -> None:
    assert not await learnt(Refusals(Config.model_validate(SECTIONS)), RecordRefused("some record"))


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
        assert await learnt(refusals, too_large(topic))
    assert refusals.sink_config.kafka["batch.size"] == str(batch)


async def test_a_topics_limits_are_asked_for_later_if_kafka_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the relay would end, although the topic's limits might help."""
    monkeypatch.setattr("pgrelay.kafka.cluster._TIMEOUT_S", 0.1)
    with pytest.raises(KafkaUnavailable, match="topic t0 refused a record, and does not say yet what it"):
        await learnt(Refusals(Config.model_validate(SECTIONS)), too_large("t0"))


async def test_limits_that_we_may_not_see_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def topic_config(self: Cluster, name: str) -> TopicConfig:
        raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    monkeypatch.setattr(Cluster, "topic_config", topic_config)
    assert not await learnt(Refusals(Config.model_validate(SECTIONS)), too_large("t0"))


async def configured(self: Cluster, name: str) -> TopicConfig:
    return TopicConfig(10_000, 1, "compact" if name == "compacted" else "delete", -1)


def refused_by_broker(topic: str, keyless: bool = False) -> RecordRefused:
    error = too_large(topic)
    error.by_broker, error.keyless = True, keyless
    return error


def refusals_of(policy: str) -> Refusals:
    return Refusals(Config.model_validate(SECTIONS | {"errors": {"on_record": policy}}))


@pytest.mark.parametrize("policy", ["stop", "dead_letter"])
async def test_after_a_refused_batch_one_session_sends_transactions_one_after_the_other(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cluster, "topic_config", configured)
    refusals = refusals_of(policy)
    assert await refusals.adapt_to(refused_by_broker("t"), serial=False, read_lsn=0x900)
    assert refusals.serial_until == 0x900
    assert refusals.sink_config.kafka["batch.size"] == str(10_000 - 1_024)
    assert not await refusals.adapt_to(refused_by_broker("t"), serial=True, read_lsn=0x800)
    # Another one, after what was sent serially.
    assert await refusals.adapt_to(refused_by_broker("t"), serial=False, read_lsn=0x1000)
    assert refusals.serial_until == 0x1000


async def test_limits_are_not_needed_to_find_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    async def topic_config(self: Cluster, name: str) -> TopicConfig:
        raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    monkeypatch.setattr(Cluster, "topic_config", topic_config)
    refusals = refusals_of("stop")
    assert await refusals.adapt_to(refused_by_broker("t"), serial=False, read_lsn=0x900)
    assert not await refusals.adapt_to(refused_by_broker("t"), serial=True, read_lsn=0x900)


async def test_a_record_that_the_producer_refuses_is_known() -> None:
    refusals = refusals_of("stop")
    assert not await refusals.adapt_to(too_large("t"), serial=False, read_lsn=0x900)
    assert refusals.serial_until == 0


async def test_a_topic_whose_limits_have_changed_is_learnt_again(monkeypatch: pytest.MonkeyPatch) -> None:
    most = [10_000, 5_000]

    async def topic_config(self: Cluster, name: str) -> TopicConfig:
        return TopicConfig(most.pop(0), 1, "delete", -1)

    monkeypatch.setattr(Cluster, "topic_config", topic_config)
    refusals = refusals_of("dead_letter")
    assert [await learnt(refusals, refused_by_broker("t")) for _ in range(2)] == [True, True]
    assert refusals.dead_letters is not None
    assert refusals.dead_letters.by_topic["t"].max_bytes == 5_000 - 1_024


async def test_a_topic_that_needs_no_key_did_not_refuse_for_want_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two wrong timestamps have the same code."""
    monkeypatch.setattr(Cluster, "topic_config", configured)
    refusals = refusals_of("dead_letter")
    with pytest.raises(RecordRefused, match="not for want of a key; correct our clock") as refused:
        await learnt(refusals, refused_by_broker("t", keyless=True))
    assert (refused.value.topic, refused.value.commit_lsn) == ("t", 0x700), "pgrelay skip needs it"
    assert await learnt(refusals, refused_by_broker("compacted", keyless=True))
    assert refusals.dead_letters is not None
    assert refusals.dead_letters.by_topic["compacted"].key_required
