"""Timeouts for repeated requests to Kafka."""

from itertools import islice

from pgrelay.kafka.timeouts import growing_timeouts_s


def test_each_try_may_take_longer_than_the_last_up_to_a_limit() -> None:
    assert list(islice(growing_timeouts_s(), 5)) == [1.0, 2.0, 4.0, 4.0, 4.0]
