"""Timelines, from a server's history file."""

from pgrelay.postgres.timeline_history import TimelineHistory

FILE = """\
1	0/3000	no recovery target specified

# 2	0/9	of somebody
  3	A/6000	at restore point "4
0/1"
"""


def test_left_at_gives_where_each_timeline_was_left() -> None:
    history = TimelineHistory.parse(FILE)
    assert history.left == ((1, 0x3000), (3, 0xA00006000))
    assert [history.left_at(timeline) for timeline in (1, 2, 3, 4)] == [0x3000, None, 0xA00006000, None]


def test_each_timeline_began_where_the_one_before_was_left() -> None:
    assert [TimelineHistory.parse(FILE).began_at(timeline) for timeline in (1, 3, 4)] == [
        None,
        0x3000,
        0xA00006000,
    ]


def test_the_first_timeline_has_no_history() -> None:
    assert (TimelineHistory().left_at(1), TimelineHistory().began_at(1)) == (None, None)
