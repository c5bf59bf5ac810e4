"""The commit up to which transactions are whole, and what is held back after it."""

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pgrelay.spark.mirrors.transactions import (
    HeldBack,
    Incomplete,
    held_back,
    min_read_lsns,
    transaction_progress,
)
from tests.spark.handmade_records import as_tuples

TABLES = {"public.a": "app.public.a", "public.b": "app.public.b"}
A, B = TABLES.values()
BOUNDARIES = "app.transaction"
SHAPE = (
    "topic string, partition int, offset long, commit_lsn long, seq long, ts_ms long, is_new boolean, "
    "boundary struct<status: string, commit_lsn: long, ts_ms: long, "
    "data_collections: array<struct<data_collection: string, event_count: long>>>"
)
Record = tuple[Any, ...]


def row(topic: str, lsn: int, seq: int = 0, partition: int = 0, *, is_new: bool = True) -> Record:
    return (topic, partition, None, lsn, seq, lsn * 1000, is_new, None)


def begin(lsn: int) -> Record:
    return (BOUNDARIES, 0, None, lsn, None, lsn * 1000, True, ("BEGIN", lsn, lsn * 1000, None))


def end(lsn: int, offset: int = 0, **events: int) -> Record:
    counts = [(f"public.{table}", count) for table, count in events.items()]
    return (BOUNDARIES, 0, offset, lsn, None, lsn * 1000, True, ("END", lsn, lsn * 1000, counts))


def whole(lsn: int, **events: int) -> list[Record]:
    return [begin(lsn), end(lsn, **events)]


def frame(spark: SparkSession, records: Sequence[Record]) -> DataFrame:
    """The records, in two tasks: those of one transaction may be in several."""
    return as_tuples(spark, records[::2], SHAPE).union(as_tuples(spark, records[1::2], SHAPE))


@pytest.mark.parametrize(
    ("records", "until", "waiting"),
    [
        ([row(A, 100), *whole(100, a=1)], 100, []),
        ([row(A, 100), begin(100)], 0, []),
        # An end that was read before its rows keeps those behind it, too.
        ([*whole(100, a=2), row(A, 100), row(B, 200), *whole(200, b=1)], 0, [(100, A, 1, 2)]),
        ([row(B, 90), *whole(90, b=1), *whole(100, a=1)], 90, [(100, A, 0, 1)]),
        # A batch that came again, and a relay that wrote again.
        ([row(A, 100), row(A, 100), *whole(100, a=2), *whole(100, a=2)], 0, [(100, A, 1, 2)]),
        # Events of tables that are not mirrored are not looked for.
        ([row(A, 100), *whole(100, a=1, other=5), *whole(110, other=1)], 110, []),
        # Of two tables in one transaction each tells what it lacks.
        ([row(A, 100), *whole(100, a=2, b=1)], 0, [(100, A, 1, 2), (100, B, 0, 1)]),
    ],
    ids=["whole", "without-end", "end-first", "two", "doubled", "others", "both"],
)
def test_transactions_are_whole_up_to_the_first_with_missing_events(
    spark: SparkSession, records: list[Record], until: int, waiting: list[tuple[Any, ...]]
) -> None:
    found = transaction_progress(frame(spark, records), TABLES, 0, {})
    assert found.until == until
    assert sorted(found.waiting, key=lambda each: each.topic) == [Incomplete(*each) for each in waiting]
    assert found.lost == ()


def test_the_last_end_of_a_transaction_counts(spark: SparkSession) -> None:
    """A record that Kafka refused is a dead letter when the transaction comes again. So it is with a table
    that is excluded since. Batches have the boundaries in any order, also a begin after the end."""
    records = [row(A, 100, seq) for seq in (0, 2)]
    records += [begin(100), end(100, 7, a=2), end(100, 5, a=3, b=1), begin(100)]
    found = transaction_progress(frame(spark, records), TABLES, 0, {})
    assert (found.until, found.waiting) == (100, ())
    fewer = transaction_progress(frame(spark, [*records, end(100, 9, a=3)]), TABLES, 0, {})
    assert fewer.waiting == (Incomplete(100, A, 2, 3),)


def test_applied_events_are_not_counted_again(spark: SparkSession) -> None:
    found = transaction_progress(
        frame(spark, [*whole(100, a=1), row(A, 200), *whole(200, a=1)]), TABLES, 100, {}
    )
    assert (found.until, found.waiting) == (200, ())
    assert transaction_progress(frame(spark, whole(100, a=1)), TABLES, 100, {}).until == 100


def test_events_that_can_not_come_are_not_waited_for(spark: SparkSession) -> None:
    """A transaction whose begin was not read, and one that all its topic's partitions have passed."""
    begun_before = [row(A, 100, 1), end(100, a=2)]
    records = [*begun_before, row(A, 200), *whole(200, a=2), row(A, 300), *whole(300, a=1)]
    found = transaction_progress(frame(spark, records), TABLES, 0, {})
    assert (found.until, found.waiting) == (100, (Incomplete(200, A, 1, 2),))
    found = transaction_progress(frame(spark, records), TABLES, 0, {A: 300})
    assert (found.until, found.waiting, found.lost) == (300, (), (Incomplete(200, A, 1, 2),))
    assert transaction_progress(frame(spark, records), TABLES, 0, {A: 200}).until == 100


def test_a_topic_is_read_past_the_lsn_that_all_its_partitions_passed(spark: SparkSession) -> None:
    records = [row(A, 100), row(A, 300), row(A, 200, partition=1), row(B, 50), *whole(900, a=1)]
    ends = {A: {0: 2, 1: 1}, B: {0: 1, 1: 7}}
    assert min_read_lsns(frame(spark, records), ends) == {A: 200}


def test_waiting_rows_are_counted_and_dated(spark: SparkSession) -> None:
    """By rows, since nothing else shows a transaction without boundaries."""
    records = frame(spark, [row(A, 100), row(B, 110, is_new=False), row(A, 120, is_new=False)])
    assert held_back(records, 0, BOUNDARIES) == HeldBack(rows=3, has_new=True, oldest_s=100.0, first=(100, A))
    assert held_back(records, 100, BOUNDARIES) == HeldBack(
        rows=2, has_new=False, oldest_s=110.0, first=(110, B)
    )
    assert held_back(records, 120, BOUNDARIES) == HeldBack()
    assert held_back(records, 0, BOUNDARIES).first_without_boundaries == (100, A)


def test_a_transaction_with_a_begin_does_not_lack_boundaries(spark: SparkSession) -> None:
    held = held_back(frame(spark, [row(A, 100), begin(100), begin(110)]), 0, BOUNDARIES)
    assert (held.rows, held.boundaries, held.ends, held.first_without_boundaries) == (1, 2, 0, None)
    assert held_back(frame(spark, [begin(110)]), 0, BOUNDARIES).first_without_boundaries is None


def test_a_boundary_that_can_not_be_read_is_told(spark: SparkSession) -> None:
    """Also one of a batch whose other records are all applied."""
    unread = [(BOUNDARIES, 0, offset, None, None, None, True, None) for offset in (8, 7)]
    records = frame(spark, [row(A, 100), *whole(100, a=1), *unread, (A, 0, 3, None, None, None, True, None)])
    assert held_back(records, 100, BOUNDARIES) == HeldBack(first_unreadable=(0, 7))


def test_the_summary_of_two_batches_is_that_of_their_records(spark: SparkSession) -> None:
    held = [row(B, 110, is_new=False), row(A, 120, is_new=False)]
    came = [row(A, 100), begin(100), *whole(130, a=1)]
    both = held_back(frame(spark, held + came), 0, BOUNDARIES)
    one, other = (held_back(frame(spark, records), 0, BOUNDARIES) for records in (held, came))
    assert one.combined_with(other) == both
    assert one.combined_with(HeldBack()) == one
    assert HeldBack().combined_with(other) == other
