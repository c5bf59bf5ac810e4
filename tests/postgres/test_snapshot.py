"""Which transactions a snapshot shows. Its ids have more bits than those of the stream."""

import pytest

from pgrelay.postgres.snapshot import Snapshot, names_application

EPOCH = 1 << 32


@pytest.mark.parametrize(
    ("xid", "shown"),
    [(99, True), (100, False), (101, True), (104, False), (109, True), (110, False), (200, False)],
)
def test_running_and_later_transactions_are_not_shown(xid: int, shown: bool) -> None:
    assert Snapshot.parse("100:110:100,104").is_visible(xid) == shown
    assert Snapshot.parse(f"{EPOCH + 100}:{EPOCH + 110}:{EPOCH + 100},{EPOCH + 104}").is_visible(xid) == shown


def test_with_nothing_running_everything_before_is_shown() -> None:
    now = Snapshot.parse("110:110:")
    assert (now.is_visible(109), now.is_visible(110), now.is_visible(None)) == (True, False, True)


def test_ids_may_wrap_around() -> None:
    now = Snapshot.parse(f"{EPOCH - 2}:{EPOCH + 5}:{EPOCH - 2},{EPOCH + 3}")
    assert [now.is_visible(xid) for xid in (EPOCH - 3, EPOCH - 2, EPOCH - 1, 2, 3, 4, 5)] == [
        True, False, True, True, False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("standbys", "named"),
    [
        ("", False),
        ("s1, s2", False),
        ("FIRST 1 (s1, pgrelays)", False),
        ("PgRelay", True),
        ("ANY 2 (s1,pgrelay,s2)", True),
        ('FIRST 1 ("a ""b"" c", "pgrelay")', True),
        ('"*"', True),
        ("*", True),
    ],
)
def test_names_tells_whether_a_commit_may_wait_for_us(standbys: str, named: bool) -> None:
    assert names_application(standbys, "pgrelay") == named
