"""The age of commits that have not been received."""

from pgrelay.relay.unreceived import Unreceived

MIB = 1 << 20


def test_nothing_is_behind_within_the_last_bytes() -> None:
    unreceived = Unreceived()
    assert unreceived.since_s(0, MIB, asked_s=10, now_s=12, delivered_s=None) is None
    assert unreceived.since_s(7, 0, asked_s=12, now_s=14, delivered_s=5) is None


def test_commits_are_later_than_the_last_look_at_which_all_was_received() -> None:
    unreceived = Unreceived()
    unreceived.since_s(0, MIB, asked_s=10, now_s=11, delivered_s=5)
    assert unreceived.since_s(0, MIB + 1, asked_s=12, now_s=14, delivered_s=5) == 10
    assert unreceived.since_s(0, 3 * MIB, asked_s=16, now_s=18, delivered_s=5) == 10


def test_a_stream_that_is_always_some_seconds_behind_is_no_further_behind() -> None:
    unreceived = Unreceived()
    unreceived.since_s(0, 0, asked_s=0, now_s=2, delivered_s=None)
    for now_s in range(4, 100, 2):
        received, wal_end = (now_s - 8) * 9 * MIB, (now_s - 2) * 9 * MIB
        since_s = unreceived.since_s(received, wal_end, asked_s=now_s - 2, now_s=now_s, delivered_s=None)
        assert since_s is not None
        assert now_s - since_s <= 2 * 8


def test_what_was_received_and_not_delivered_comes_again_after_a_reconnect() -> None:
    unreceived = Unreceived()
    assert unreceived.since_s(9 * MIB, 9 * MIB, asked_s=60, now_s=62, delivered_s=5, waits_s=10) is None
    assert unreceived.since_s(0, 9 * MIB, asked_s=64, now_s=66, delivered_s=5) == 10


def test_commits_are_later_than_the_last_that_was_delivered() -> None:
    unreceived = Unreceived()
    assert unreceived.since_s(0, 9 * MIB, asked_s=10, now_s=12, delivered_s=5) == 5
    assert unreceived.since_s(MIB, 9 * MIB, asked_s=12, now_s=14, delivered_s=8) == 8


def test_before_all_that_they_are_as_old_as_the_first_look() -> None:
    unreceived = Unreceived()
    assert unreceived.since_s(0, 9 * MIB, asked_s=10, now_s=12, delivered_s=None) == 10
    assert unreceived.since_s(0, 9 * MIB, asked_s=14, now_s=16, delivered_s=None) == 10


def test_what_was_written_a_moment_ago_may_be_on_its_way() -> None:
    unreceived = Unreceived()
    assert unreceived.since_s(0, 9 * MIB, asked_s=10, now_s=10.5, delivered_s=5) is None
    assert unreceived.since_s(0, 9 * MIB, asked_s=10, now_s=11, delivered_s=5) == 5
    assert unreceived.since_s(0, 9 * MIB, asked_s=12, now_s=12.5, delivered_s=5) == 5
    assert unreceived.since_s(9 * MIB, 9 * MIB, asked_s=12, now_s=12.6, delivered_s=5) is None
