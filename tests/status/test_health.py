"""Why the stream does not flow, as /readyz says it."""

import pytest

from pgrelay.status.health import Health


@pytest.fixture
def health() -> Health:
    return Health()


def test_a_start_says_what_it_awaits(health: Health) -> None:
    assert health.reason == "starting"
    for reason in "waiting for Postgres", "waiting for Kafka":
        health.starting(reason)
        assert (health.ready, health.reason) == (False, reason)


def test_trouble_is_shown_until_the_stream_flows(health: Health) -> None:
    """What the next try awaits says less."""
    health.waiting("Kafka is away")
    health.starting("waiting for Kafka")
    assert health.reason == "Kafka is away"
    health.streaming()
    health.starting("waiting for Postgres")
    assert health.ready


def test_what_a_start_does_instead_replaces_trouble(health: Health) -> None:
    health.waiting("Kafka is away")
    health.starting("a slot is being created", anyway=True)
    assert health.reason == "a slot is being created"
    health.starting("waiting for Kafka")
    assert health.reason == "waiting for Kafka"
