"""What is learnt from a refused record. There is no broker."""

from typing import Any

import pytest

from pgrelay.config import Config
from pgrelay.errors import RecordRefused
from pgrelay.kafka.cluster import Cluster, TopicConfig
from pgrelay.relay.refusals import Refusals

SECTIONS: dict[str, dict[str, Any]] = {
    "source": {"dsn": "host=127.0.0.1", "slot": "s"},
    "sink": {"kafka": {"bootstrap.servers": "127.0.0.1:1"}},
    "records": {"prefix": "app"},
    "errors": {"on_record": "dead_letter"},
}


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

    async def topic_configs(self: Cluster, names: list[str]) -> dict[str, TopicConfig]:
        return {name: found[name] for name in names}

    monkeypatch.setattr(Cluster, "topic_configs", topic_configs)
    sink = {"kafka": {**SECTIONS["sink"]["kafka"], **given}}
    refusals = Refusals(Config.model_validate(SECTIONS | {"sink": sink}))
    for topic in found:
        error = RecordRefused("too large")
        error.topic = topic
        assert await refusals.learn(error)
    assert refusals.sink_config.kafka["batch.size"] == str(batch)
