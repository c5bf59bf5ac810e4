"""Pauses between tries."""

from pgrelay.relay.backoff import Backoff
from tests.clock import Clock


def test_pauses_grow_to_a_limit_and_restart_after_success() -> None:
    backoff = Backoff()
    assert 0.1 <= backoff.next_s() <= 0.2
    for _ in range(10):
        pause_s = backoff.next_s()
    assert 2.5 <= pause_s <= 5
    backoff.reset()
    assert backoff.next_s() <= 0.2


def test_a_higher_limit_applies_to_one_error_only() -> None:
    backoff = Backoff()
    for _ in range(12):
        pause_s = backoff.next_s(60)
    assert 30 <= pause_s <= 60
    assert backoff.next_s() <= 5


def test_a_reason_is_news_once_until_success_whatever_its_figures() -> None:
    backoff = Backoff()
    assert backoff.should_log("a Kafka transaction was open for 61 s")
    assert not backoff.should_log("a Kafka transaction was open for 62 s")
    assert backoff.should_log("the standby has not reached 16/B374D848, which we have relayed")
    assert not backoff.should_log("the standby has not reached A/0, which we have relayed")
    backoff.reset()
    assert backoff.should_log("a Kafka transaction was open for 63 s")


def test_a_reason_that_lasts_is_news_again_after_ten_minutes(clock: Clock) -> None:
    backoff = Backoff()
    assert backoff.outage_s == 0
    assert backoff.should_log("Postgres can't be reached")
    clock.now += 599
    assert not backoff.should_log("Postgres can't be reached")
    clock.now += 1
    assert backoff.should_log("Postgres can't be reached")
    assert backoff.outage_s == 600
    backoff.reset()
    assert backoff.outage_s == 0
