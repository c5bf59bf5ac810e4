"""The defaults of a producer, and what they depend on."""

import pytest
from confluent_kafka import KafkaException, Producer

from pgrelay.kafka.producer_options import FIXED, defaults_for
from tests.kafka.sinks import NOBODY


@pytest.mark.parametrize(
    ("given", "answer_ms"),
    [
        ({}, 15_000),
        ({"transaction.timeout.ms": "600000"}, 15_000),
        ({"transaction.timeout.ms": "4000"}, 4_000),
        ({"transaction.timeout.ms": "1000"}, 1_000),
    ],
)
def test_a_broker_is_given_up_in_seconds_and_within_a_transactions_timeout(
    given: dict[str, str], answer_ms: int
) -> None:
    """Records wait as long for a partition's next leader. librdkafka refuses more than a transaction has."""
    options = defaults_for(given)
    assert options["socket.timeout.ms"] == answer_ms
    Producer({**options, **NOBODY, **given, **FIXED, "transactional.id": "app"})


def test_a_transaction_timeout_that_is_refused_is_refused_by_its_own_name() -> None:
    given = {"transaction.timeout.ms": "5"}
    with pytest.raises(KafkaException, match=r'"transaction\.timeout\.ms" value 5 is outside allowed range'):
        Producer({**defaults_for(given), **NOBODY, **given})
