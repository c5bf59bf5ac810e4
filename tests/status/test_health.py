"""Why the stream does not flow, as /readyz says it."""

import pytest

from pgrelay.status.health import Health


@pytest.fixture
def health() -> Health:
    return Health()


def test_a_start_says_what_it_awaits(health: Health) -> None:
    assert health.reason == "starting"
    for reason in "waiting for Postgres", "waiting for Kafka":
        health.set_starting(reason)
        assert (health.ready, health.reason) == (False, reason)


def test_trouble_is_shown_until_the_stream_flows(health: Health) -> None:
    """What the next try awaits says less."""
    health.set_waiting("Kafka is away")
    health.set_starting("waiting for Kafka")
    assert health.reason == "Kafka is away"
    health.set_streaming()
    health.set_starting("waiting for Postgres")
    assert health.ready


def test_what_a_start_does_instead_replaces_trouble(health: Health) -> None:
    health.set_waiting("Kafka is away")
    health.set_starting("a slot is being created", override=True)
    assert health.reason == "a slot is being created"
    health.set_starting("waiting for Kafka")
    assert health.reason == "waiting for Kafka"
