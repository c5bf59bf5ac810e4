"""Where a reader stands in topics, by a few records around it and at their ends."""

from pyspark.sql import SparkSession

from pgrelay.spark.mirrors.topic_ends import Lag, TopicEnds, _window, _windows
from pgrelay.spark.schemas.columns import Column
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import Message, change, flat, tombstone
from tests.spark.jobs import counted_jobs

ID = Column("id", "int4", key=True, encoding="integer")


def test_each_topic_has_its_place(spark: SparkSession, handmade: HandmadeRelay) -> None:
    a, b, empty = (handmade.table(name, ID, partitions=2) for name in ("a", "b", "empty"))
    handmade.write("a", *(change("c", 10 + n, after={"id": n}, partition=n % 2) for n in range(40)))
    handmade.write("b", flat("c", 7, row={"id": 1}), tombstone({"id": 1}), Message(b"garbage"))
    ends = TopicEnds(spark, handmade.bootstrap)
    found = ends.lags({a: {0: 20, 1: 1}, b: {0: 3, 1: 0}, empty: {0: 0, 1: 0}})
    assert found == {
        a: Lag(lsn=48, newest_lsn=49, records=19, oldest_s=1.0),
        b: Lag(lsn=7, newest_lsn=7),
        empty: Lag(),
    }


def test_only_topics_that_moved_are_read_again(spark: SparkSession, handmade: HandmadeRelay) -> None:
    a, b = handmade.table("a", ID), handmade.table("b", ID)
    handmade.write("a", change("c", 10, after={"id": 1}))
    handmade.write("b", change("c", 11, after={"id": 1}))
    ends, read = TopicEnds(spark, handmade.bootstrap), {a: {0: 1}, b: {0: 1}}
    first = ends.lags(read)
    assert first == {a: Lag(lsn=10, newest_lsn=10), b: Lag(lsn=11, newest_lsn=11)}
    with counted_jobs(spark) as jobs:
        assert ends.lags(read) == first
    assert jobs.count == 0
    handmade.write("b", change("c", 20, after={"id": 2}))
    behind = Lag(lsn=11, newest_lsn=20, records=1, oldest_s=1.0)
    assert ends.lags(read) == {**first, b: behind}
    assert ends.lags({a: {0: 1}, b: {0: 2}}) == {**first, b: Lag(lsn=20, newest_lsn=20)}


def test_a_few_offsets_around_the_reader_and_at_the_end_are_read() -> None:
    assert _windows(500, 1000) == ((490, 500), (500, 510), (990, 1000))
    assert _window({"a": {0: (500, 1000), 1: (20, 20)}, "b": {0: (20, 20)}}, 2) == {"a": {0: (990, 1000)}}


def test_windows_do_not_overlap() -> None:
    assert _windows(4, 18) == ((0, 4), (4, 14), (14, 18))


def test_a_topic_that_was_made_anew_is_read_to_its_end() -> None:
    assert _windows(20, 15) == ((10, 15), (20, 15), (15, 15))


def test_an_empty_partition_is_not_read() -> None:
    assert [_window({"a": {0: (0, 0)}}, which) for which in range(3)] == [{}, {}, {}]
