"""What is applied of a topic, and its marks; without Spark."""

import json

import pytest

from pgrelay.spark.lake.applied_positions import AppliedPositions, parse_mark
from pgrelay.spark.schemas.schema import Position

TOPIC = "app.public.t"


def applied(*positions: Position, truncated: Position | None = None) -> AppliedPositions:
    """These positions of the partitions 0, 1, ..."""
    return AppliedPositions(TOPIC, dict(enumerate(positions)), truncated)


def test_positions_only_rise() -> None:
    ours = applied((20, 3))
    ours.advance(0, (20, 2))
    ours.advance(1, (10, 0))
    ours.truncate((15, 1))
    ours.truncate((15, 0))
    assert ours == applied((20, 3), (10, 0), truncated=(15, 1))
    ours.add(applied((20, 4), (9, 0), (1, 0), truncated=(15, 2)))
    ours.add(applied())
    assert ours == applied((20, 4), (10, 0), (1, 0), truncated=(15, 2))
    assert (ours.highest_lsn, applied().highest_lsn) == (20, 0)


@pytest.mark.parametrize("theirs", [applied(), applied((20, 3), (10, 0)), applied((9, 0), truncated=(8, 1))])
def test_a_mark_tells_all_that_is_applied(theirs: AppliedPositions) -> None:
    ours = applied()
    ours.add_mark(theirs.mark(writer="w"))
    assert ours == theirs
    assert parse_mark(theirs.mark(writer="w"))["writer"] == "w"


@pytest.mark.parametrize(
    "mark",
    [
        None,
        *("", "nightly", "[1]", "1", "{}"),
        AppliedPositions("app.public.other", {0: (99, 0)}, (99, 0)).mark(),
    ],
)
def test_marks_of_others_tell_nothing(mark: str | None) -> None:
    ours = applied((20, 3))
    ours.add_mark(mark)
    assert ours == applied((20, 3))


def test_marks_are_read_as_earlier_releases_wrote_them() -> None:
    ours = applied()
    ours.add_mark(json.dumps({"topic": TOPIC, "applied": [[0, 20, 3]], "since": 7}))
    assert ours == applied((20, 3))


@pytest.mark.parametrize(
    ("other", "beyond"),
    [
        (applied((20, 3)), False),
        (applied((21, 0)), False),
        (applied((20, 2)), True),
        (applied(), True),
        (applied((20, 3), (1, 0), truncated=(15, 0)), False),
        (applied((20, 3), truncated=(14, 9)), True),
    ],
)
def test_one_is_beyond_another_in_any_partition_or_by_a_truncate(
    other: AppliedPositions, beyond: bool
) -> None:
    ours = applied((20, 3), truncated=None if other.truncated is None else (15, 0))
    assert ours.is_beyond(other) is beyond
