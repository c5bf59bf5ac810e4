"""What a target holds after batches of changes, in Delta and Iceberg: the last writer wins, come what may."""

from collections import Counter
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pgrelay import spark as pg
from pgrelay.errors import GapError, RecordError, SetupError
from pgrelay.spark.columns import Column
from pgrelay.spark.lake import Using, lake_table
from pgrelay.spark.positions import SUFFIX, read_positions
from pgrelay.spark.schema import TableSchema
from tests.spark.conftest import Topic
from tests.spark.records import Message, change, rows, table, tombstone

NewTopic = Callable[..., Topic]

ID = Column("id", "int4", key=True, encoding="integer")
NAME = Column("name", "text")
BIG = Column("big", "text")

both_formats = pytest.mark.parametrize("using", ["delta", "iceberg"])


class Mirrored:
    """A topic, and a target that its changes are applied to in batches."""

    def __init__(self, topic: Topic, target: str, schema: TableSchema, using: Using) -> None:
        self.topic = topic
        self.target = target
        self.schema = schema
        self.using: Using = using
        self._read = 0

    def batch(self, *messages: Message, **choices: str) -> None:
        """Write records to partition 0, and apply them and no others."""
        start = self._read
        self.topic.write(*messages)
        self._read += len(messages)
        self.apply(start, self._read, **choices)

    def apply(self, start: int, end: int, **choices: str) -> None:
        """Apply the records of these offsets, once more perhaps."""
        within = (F.col("offset") >= start) & (F.col("offset") < end)
        changes = self.topic.changes(self.schema).where(within)
        pg.apply_changes(changes, self.target, schema=self.schema, using=self.using, **choices)  # type: ignore[arg-type]

    @property
    def table(self) -> DataFrame:
        name = f"iceberg.{self.target}" if self.using == "iceberg" else self.target
        return self.topic.spark.table(name)

    @property
    def rows(self) -> Counter[tuple[object, ...]]:
        return rows(self.table)


def row(number: int, name: str | None = None, big: str | None = None) -> dict[str, object]:
    return {"id": number, "name": name, "big": big}


@both_formats
def test_the_last_writer_wins_and_replays_change_nothing(
    new_topic: NewTopic, target: str, using: Using
) -> None:
    topic = new_topic()
    mirrored = Mirrored(topic, target, table(topic.name, ID, NAME, BIG), using)
    mirrored.batch(
        change("r", 10, 0, after=row(1, "a", "x")),
        change("c", 10, 1, after=row(2, "b", "y")),
        change("c", 11, 0, after=row(3, "c")),
        change("u", 12, 0, after={"id": 2, "name": "B"}, unchanged=["big"]),
        change("d", 13, 0, before={"id": 3}),
        tombstone({"id": 3}),
    )
    assert mirrored.rows == Counter([(1, "a", "x"), (2, "B", "y")])
    # An unchanged value stays the target's; a key is deleted and made anew; a null is a value.
    mirrored.batch(
        change("u", 20, 0, after={"id": 1, "name": "A"}, unchanged=["big"]),
        change("d", 20, 1, before={"id": 2}),
        change("c", 20, 2, after=row(2, "again")),
        change("c", 21, 0, after=row(4, "d", "z")),
        change("u", 22, 0, after={"id": 4, "name": None}, unchanged=["big"]),
        change("c", 23, 0, after=row(5, "gone")),
        change("d", 24, 0, before={"id": 5}),
    )
    expected = Counter([(1, "A", "x"), (2, "again", None), (4, None, "z")])
    assert mirrored.rows == expected
    assert rows(mirrored.table.where("id = 4"), "__commit_lsn", "__seq") == Counter([(22, 0)])
    mirrored.apply(0, 100)
    assert mirrored.rows == expected
    mirrored.apply(0, 6)
    assert mirrored.rows == expected


@both_formats
def test_a_redelivery_that_ends_before_a_delete_brings_no_row_back(
    new_topic: NewTopic, target: str, using: Using
) -> None:
    topic = new_topic()
    mirrored = Mirrored(topic, target, table(topic.name, ID, NAME, BIG), using)
    first = [change("c", 10, after=row(1, "a")), change("c", 11, after=row(2, "b"))]
    mirrored.batch(*first, change("d", 12, before={"id": 1}))
    mirrored.batch(*first)  # what a relay writes again that was killed
    assert mirrored.rows == Counter([(2, "b", None)])
    kept = read_positions(lake_table(topic.spark, mirrored.target, using), mirrored.schema)
    assert kept.applied == {0: (12, 0)}


@both_formats
def test_a_truncate_takes_what_is_older_and_nothing_newer(
    new_topic: NewTopic, target: str, using: Using
) -> None:
    topic = new_topic(partitions=2)
    mirrored = Mirrored(topic, target, table(topic.name, ID, NAME), using)
    name = {"name": None}
    topic.write(change("c", 10, after={"id": 9} | name, partition=1))
    mirrored.batch(change("c", 11, after={"id": 1} | name), change("c", 12, after={"id": 2} | name))
    # Partition 1 is ahead: its truncate and a newer row came with the first batch or will come later.
    topic.write(change("t", 20, 0, partition=1), change("c", 20, 1, after={"id": 8} | name, partition=1))
    mirrored.batch(change("t", 20, 0), change("c", 21, after={"id": 3} | name))
    assert rows(mirrored.table, "id") == Counter([(3,), (8,)])


def test_a_key_that_changes_moves_the_row(new_topic: NewTopic, target: str) -> None:
    topic = new_topic()
    mirrored = Mirrored(topic, target, table(topic.name, ID, NAME), "delta")
    mirrored.batch(
        change("c", 10, after={"id": 1, "name": "a"}), change("c", 11, after={"id": 5, "name": "e"})
    )
    mirrored.batch(
        change("d", 12, 0, before={"id": 1}),
        change("c", 12, 1, after={"id": 2, "name": "a"}),
        # As one update, where the relay writes no keys.
        change("u", 13, 0, before={"id": 5}, after={"id": 6, "name": "e"}),
    )
    assert mirrored.rows == Counter([(2, "a"), (6, "e")])


def test_a_changed_key_without_its_large_value_is_refused_null_or_set_aside(
    new_topic: NewTopic, target: str
) -> None:
    topic = new_topic()
    schema = table(topic.name, ID, NAME, BIG)
    mirrored = Mirrored(topic, target, schema, "delta")
    # What the new key had before is another row's.
    mirrored.batch(change("c", 10, 0, after=row(2, "old", "y")), change("c", 10, 1, after=row(1, "a", "x")))
    moved = [
        change("d", 11, before={"id": 2}),
        change("d", 12, 0, before={"id": 1}),
        change("c", 12, 1, after={"id": 2, "name": "a"}, unchanged=["big"]),
        change("u", 13, 0, after={"id": 2, "name": "b"}, unchanged=["big"]),
    ]
    with pytest.raises(RecordError, match=r"LSN 0/D: the key of the row id = 2 .* of big was not sent.*FULL"):
        mirrored.batch(*moved)
    mirrored.apply(2, 6, on_missing="null")
    assert mirrored.rows == Counter([(2, "b", None)])
    aside = Mirrored(topic, f"{target}_2", schema, "delta")
    aside.apply(0, 2)
    aside.apply(2, 6, corrupt_to=f"{target}_corrupt")
    assert aside.rows == Counter()
    # So are later updates of it, until one has the value.
    topic.write(
        change("u", 14, after={"id": 2, "name": "c"}, unchanged=["big"]),
        change("u", 15, after=row(2, "c", "z")),
    )
    aside.apply(6, 7, corrupt_to=f"{target}_corrupt")
    assert rows(topic.spark.table(f"{target}_corrupt"), "offset") == Counter([(4,), (5,), (6,)])
    aside.apply(7, 8, corrupt_to=f"{target}_corrupt")
    assert aside.rows == Counter([(2, "c", "z")])


def test_a_changed_key_without_its_large_value_does_no_harm_to_what_goes(
    new_topic: NewTopic, target: str
) -> None:
    topic = new_topic()
    mirrored = Mirrored(topic, target, table(topic.name, ID, NAME, BIG), "delta")
    mirrored.batch(
        change("c", 12, after={"id": 2, "name": "a"}, unchanged=["big"]),
        change("d", 13, before={"id": 2}),
        change("c", 14, after={"id": 3, "name": "a"}, unchanged=["big"]),
        change("u", 15, after=row(3, "a", "told")),
    )
    assert mirrored.rows == Counter([(3, "a", "told")])


def test_an_update_of_a_row_that_is_not_there_is_refused_or_null(new_topic: NewTopic, target: str) -> None:
    topic = new_topic()
    mirrored = Mirrored(topic, target, table(topic.name, ID, NAME, BIG), "delta")
    update = change("u", 10, after={"id": 1, "name": "a"}, unchanged=["big"])
    with pytest.raises(RecordError, match=r"the row id = 1 leaves out the large value of big, .*on_missing"):
        mirrored.batch(update)
    mirrored.apply(0, 1, on_missing="null")
    assert mirrored.rows == Counter([(1, "a", None)])


def test_a_record_that_cannot_be_read_fails_the_batch_or_goes_to_a_table(
    new_topic: NewTopic, target: str
) -> None:
    topic = new_topic()
    mirrored = Mirrored(topic, target, table(topic.name, ID, NAME), "delta")
    bad = change("c", 11, after={"id": 2**31, "name": "b"})
    with pytest.raises(RecordError, match=r"partition 0 offset 1: id: '2147483648' is not exactly a int"):
        mirrored.batch(change("c", 10, after={"id": 1, "name": "a"}), bad)
    for _ in range(2):
        mirrored.apply(0, 2, corrupt_to=f"{target}_corrupt")
    assert mirrored.rows == Counter([(1, "a")])
    assert rows(topic.spark.table(f"{target}_corrupt"), "partition", "offset") == Counter([(0, 1)])


@both_formats
def test_a_table_without_a_key_is_appended_to_once(new_topic: NewTopic, target: str, using: Using) -> None:
    topic = new_topic()
    mirrored = Mirrored(topic, target, table(topic.name, NAME), using)
    mirrored.batch(change("c", 10, 0, after={"name": "a"}), change("c", 10, 1, after={"name": "a"}))
    _forget(mirrored)  # a mirror that was killed before it had remembered
    mirrored.batch(change("c", 10, 1, after={"name": "a"}), change("c", 11, 0, after={"name": None}))
    assert mirrored.rows == Counter({("a",): 2, (None,): 1})
    with pytest.raises(RecordError, match=r"op 'd' of a table without a key: .*REPLICA IDENTITY FULL"):
        mirrored.batch(change("d", 12, before={"name": "a"}))


@both_formats
def test_whole_rows_tell_a_table_apart_that_has_no_key(
    new_topic: NewTopic, target: str, using: Using
) -> None:
    topic = new_topic()
    pairs = Column("pairs", "_hstore", encoding="array<object>")
    schema = table(topic.name, NAME, pairs, identity="full")
    mirrored = Mirrored(topic, target, schema, using)
    a, b = {"name": "a", "pairs": [{"x": None, "y": "1"}, None]}, {"name": None, "pairs": None}
    mirrored.batch(*(change("c", 10, n, after=a) for n in range(4)), change("c", 11, after=b))
    mirrored.batch(
        change("d", 12, 0, before=a),
        change("u", 12, 1, before=a, after=b),
        change("c", 13, 0, after=a),
        change("d", 14, 0, before=a),
    )
    expected = {"a": 2, None: 2}
    assert Counter(r.name for r in mirrored.table.collect()) == expected
    _forget(mirrored)
    mirrored.apply(5, 9)
    assert Counter(r.name for r in mirrored.table.collect()) == expected


@both_formats
def test_a_whole_row_that_is_not_there_can_not_be_deleted(
    new_topic: NewTopic, target: str, using: Using
) -> None:
    topic = new_topic()
    mirrored = Mirrored(topic, target, table(topic.name, NAME, BIG, identity="full"), using)
    a, b = {"name": "a", "big": None}, {"name": "b", "big": "x"}
    mirrored.batch(*(change("c", 10, n, after=a) for n in range(2)))
    with pytest.raises(RecordError, match=r"LSN 0/B: .* has no such row as was deleted.*on_missing='null'"):
        mirrored.batch(change("d", 11, 0, before=a), change("d", 11, 1, before=a | {"big": "5"}))
    assert mirrored.rows == Counter({("a", None): 2})
    three = [change("u", 12, n, before=a, after=b) for n in range(3)]
    with pytest.raises(RecordError, match=r"LSN 0/C: .* has no such row"):
        mirrored.batch(*three)
    mirrored.apply(4, 7, on_missing="null")
    assert mirrored.rows == Counter({("b", "x"): 3})


def _forget(mirrored: Mirrored) -> None:
    """The last batch was written, and the mirror killed before it remembered that."""
    beside = lake_table(mirrored.topic.spark, mirrored.target, mirrored.using).beside(SUFFIX)
    beside.spark.sql(f"DROP TABLE {beside.name}")


def test_rows_of_another_cluster_are_refused_with_the_way_out(new_topic: NewTopic, target: str) -> None:
    topic = new_topic()
    mirrored = Mirrored(topic, target, table(topic.name, ID, systemid="1"), "delta")
    mirrored.batch(change("c", 10, after={"id": 1}))
    mirrored.schema = table(topic.name, ID, systemid="2")
    with pytest.raises(
        GapError,
        match=r"cluster 2, but .* holds rows of cluster 1 up to LSN 0/A, .*pgrelay\.spark\.drop\(spark, ",
    ):
        mirrored.batch(change("c", 5, after={"id": 2}))


def test_a_target_takes_one_topic_alone(new_topic: NewTopic, target: str) -> None:
    topic, other = new_topic("a"), new_topic("b")
    mirrored = Mirrored(topic, target, table(topic.name, ID), "delta")
    mirrored.batch(change("c", 10, after={"id": 1}), change("d", 11, before={"id": 1}))
    intruder = Mirrored(other, target, table(other.name, ID), "delta")
    with pytest.raises(SetupError, match=rf"has the rows of {topic.name}: name another .* for {other.name}"):
        intruder.batch(change("c", 12, after={"id": 2}))
    mirrored.batch(change("c", 10, after={"id": 1}))  # it is remembered still that this row was deleted
    assert mirrored.rows == Counter()


def test_a_table_that_is_no_mirror_is_left_alone(
    spark: SparkSession, new_topic: NewTopic, target: str
) -> None:
    topic = new_topic()
    spark.sql("CREATE DATABASE IF NOT EXISTS lake")
    spark.sql(f"CREATE TABLE {target} (id int) USING delta")
    with pytest.raises(SetupError, match="was not made by pgrelay"):
        Mirrored(topic, target, table(topic.name, ID), "delta").batch(change("c", 10, after={"id": 1}))
