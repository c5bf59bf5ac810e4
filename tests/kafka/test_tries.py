"""How long each try of a question to Kafka may take."""

from itertools import islice

from pgrelay.kafka.tries import tries


def test_each_try_may_take_longer_than_the_last_up_to_a_limit() -> None:
    assert list(islice(tries(), 5)) == [1.0, 2.0, 4.0, 4.0, 4.0]
