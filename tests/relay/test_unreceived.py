"""The age of commits that have not been received."""

from pgrelay.postgres.slots import SlotWal
from pgrelay.relay.unreceived import Unreceived

MIB = 1 << 20


def look(wal_end: int, asked_at: float) -> SlotWal:
    return SlotWal(asked_at, wal_end, confirmed_lsn=0, restart_lsn=0, safe=float("inf"))


def test_nothing_is_behind_within_the_last_bytes() -> None:
    unreceived = Unreceived()
    assert unreceived.since(0, look(MIB, 10), now=12, delivered=None) is None
    assert unreceived.since(7, look(0, 12), now=14, delivered=5) is None


def test_commits_are_later_than_the_last_look_at_which_all_was_received() -> None:
    unreceived = Unreceived()
    unreceived.since(0, look(MIB, 10), now=11, delivered=5)
    assert unreceived.since(0, look(MIB + 1, 12), now=14, delivered=5) == 10
    assert unreceived.since(0, look(3 * MIB, 16), now=18, delivered=5) == 10


def test_a_stream_that_is_always_some_seconds_behind_is_no_further_behind() -> None:
    unreceived = Unreceived()
    unreceived.since(0, look(0, 0), now=2, delivered=None)
    for now in range(4, 100, 2):
        received, wal_end = (now - 8) * 9 * MIB, (now - 2) * 9 * MIB
        since = unreceived.since(received, look(wal_end, now - 2), now=now, delivered=None)
        assert since is not None
        assert now - since <= 2 * 8


def test_what_was_received_and_not_delivered_comes_again_after_a_reconnect() -> None:
    unreceived = Unreceived()
    assert unreceived.since(9 * MIB, look(9 * MIB, 60), now=62, delivered=5, unacknowledged=10) is None
    assert unreceived.since(0, look(9 * MIB, 64), now=66, delivered=5) == 10


def test_commits_are_later_than_the_last_that_was_delivered() -> None:
    unreceived = Unreceived()
    assert unreceived.since(0, look(9 * MIB, 10), now=12, delivered=5) == 5
    assert unreceived.since(MIB, look(9 * MIB, 12), now=14, delivered=8) == 8


def test_before_all_that_they_are_as_old_as_the_first_look() -> None:
    unreceived = Unreceived()
    assert unreceived.since(0, look(9 * MIB, 10), now=12, delivered=None) == 10
    assert unreceived.since(0, look(9 * MIB, 14), now=16, delivered=None) == 10


def test_what_was_written_a_moment_ago_may_be_on_its_way() -> None:
    unreceived = Unreceived()
    assert unreceived.since(0, look(9 * MIB, 10), now=10.5, delivered=5) is None
    assert unreceived.since(0, look(9 * MIB, 10), now=11, delivered=5) == 5
    assert unreceived.since(0, look(9 * MIB, 12), now=12.5, delivered=5) == 5
    assert unreceived.since(9 * MIB, look(9 * MIB, 12), now=12.6, delivered=5) is None


def test_what_was_written_before_a_stream_began_is_late_at_once() -> None:
    """A graph or an alert would take 0 for the end of the lag, at each reconnect."""
    unreceived = Unreceived()
    unreceived.since(0, look(0, 10), now=12, delivered=5)
    assert unreceived.since(0, look(9 * MIB, 60), now=60.1, delivered=5, before_stream=True) == 10
    assert unreceived.since(0, look(9 * MIB, 60.2), now=60.3, delivered=5) == 10
