"""What a target holds after batches of changes, in Delta and Iceberg: the last writer always wins.

Tests use both formats if the formats differ in it; otherwise Iceberg, which writes small batches faster.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructType

from pgrelay import spark as pg
from pgrelay.errors import GapError, RecordError, SetupError
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.positions import Positions
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.lake.target import Target
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableSchema
from tests.spark.earlier import forget
from tests.spark.handmade_records import Message, change, changes_of, flat, rows, table, tombstone

TOPIC = "app.public.t"
ID = Column("id", "int4", key=True, encoding="integer")
NAME = Column("name", "text")
BIG = Column("big", "text")

both_formats = pytest.mark.parametrize("using", ["delta", "iceberg"])


class Mirrored:
    """A topic, and a target to which its changes are applied in batches."""

    def __init__(
        self, spark: SparkSession, target: str, schema: TableSchema, using: Using = "iceberg"
    ) -> None:
        self.spark = spark
        self.target = target
        self.schema = schema
        self.using: Using = using
        self.written: list[Message] = []  # records, in the order of their offsets

    def write(self, *messages: Message) -> None:
        """Add records to the topic, without a batch."""
        self.written += messages

    def batch(self, *messages: Message, **choices: str) -> None:
        """Write records to partition 0, and apply only them."""
        start = sum(message.partition == 0 for message in self.written)
        self.write(*messages)
        self.apply(start, start + len(messages), **choices)

    def apply(self, start: int, end: int, **choices: str) -> None:
        """Apply the records of these offsets, perhaps again."""
        within = (F.col("offset") >= start) & (F.col("offset") < end)
        changes = changes_of(self.spark, self.schema, self.written).where(within)
        pg.apply_changes(changes, self.target, schema=self.schema, using=self.using, **choices)  # type: ignore[arg-type]

    def named(self, suffix: str) -> DataFrame:
        """The table whose name has this suffix."""
        return lake_table(self.spark, f"{self.target}{suffix}", self.using).rows()

    @property
    def table(self) -> DataFrame:
        return self.named("")

    @property
    def rows(self) -> Counter[tuple[object, ...]]:
        return rows(self.table)


Mirror = Callable[..., Mirrored]


@pytest.fixture
def mirror(spark: SparkSession, target: str) -> Mirror:
    """Create mirrors of tables with given columns."""

    def make(
        *columns: Column, using: Using = "iceberg", named: str = target, identity: str = "default"
    ) -> Mirrored:
        return Mirrored(spark, named, table(TOPIC, *columns, identity=identity), using)

    return make


def row(number: int, name: str | None = None, big: str | None = None) -> dict[str, object]:
    return {"id": number, "name": name, "big": big}


@both_formats
def test_the_last_writer_wins_and_replays_change_nothing(mirror: Mirror, using: Using) -> None:
    mirrored = mirror(ID, NAME, BIG, using=using)
    mirrored.batch(
        change("r", 10, 0, after=row(1, "a", "x")),
        change("c", 10, 1, after=row(2, "b", "y")),
        change("c", 11, 0, after=row(3, "c")),
        change("u", 12, 0, after={"id": 2, "name": "B"}, unchanged=["big"]),
        change("d", 13, 0, before={"id": 3}),
        tombstone({"id": 3}),
    )
    assert mirrored.rows == Counter([(1, "a", "x"), (2, "B", "y")])
    # An unchanged value stays the target's; a key is deleted and created again; a null is a value.
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


def test_a_redelivery_that_ends_before_a_delete_restores_no_row(mirror: Mirror) -> None:
    mirrored = mirror(ID, NAME, BIG)
    first = [change("c", 10, after=row(1, "a")), change("c", 11, after=row(2, "b"))]
    mirrored.batch(*first, change("d", 12, before={"id": 1}))
    mirrored.batch(*first)  # what a killed relay writes again
    assert mirrored.rows == Counter([(2, "b", None)])
    kept = Positions.read(lake_table(mirrored.spark, mirrored.target, mirrored.using), mirrored.schema)
    assert kept.applied.by_partition == {0: (12, 0)}


def test_a_truncate_removes_only_older_rows(mirror: Mirror) -> None:
    mirrored = mirror(ID, NAME)
    name = {"name": None}
    mirrored.write(change("c", 10, after={"id": 9} | name, partition=1))
    mirrored.batch(change("c", 11, after={"id": 1} | name), change("c", 12, after={"id": 2} | name))
    # Partition 1 is ahead: its truncate and a newer row came with the first batch or will come later.
    mirrored.write(change("t", 20, 0, partition=1), change("c", 20, 1, after={"id": 8} | name, partition=1))
    mirrored.batch(change("t", 20, 0), change("c", 21, after={"id": 3} | name))
    assert rows(mirrored.table, "id") == Counter([(3,), (8,)])


def test_a_key_that_changes_moves_the_row(mirror: Mirror) -> None:
    mirrored = mirror(ID, NAME)
    mirrored.batch(
        change("c", 10, after={"id": 1, "name": "a"}), change("c", 11, after={"id": 5, "name": "e"})
    )
    mirrored.batch(
        change("d", 12, 0, before={"id": 1}),
        change("c", 12, 1, after={"id": 2, "name": "a"}),
        # As one update, if the relay writes no keys.
        change("u", 13, 0, before={"id": 5}, after={"id": 6, "name": "e"}),
    )
    assert mirrored.rows == Counter([(2, "a"), (6, "e")])


def test_a_key_change_without_a_large_value_is_refused_null_or_rejected(mirror: Mirror, target: str) -> None:
    mirrored = mirror(ID, NAME, BIG)
    # The new key's earlier value belongs to another row.
    mirrored.batch(change("c", 10, 0, after=row(2, "old", "y")), change("c", 10, 1, after=row(1, "a", "x")))
    moved = [
        change("d", 11, before={"id": 2}),
        change("d", 12, 0, before={"id": 1}),
        change("c", 12, 1, after={"id": 2, "name": "a"}, unchanged=["big"]),
        change("u", 13, 0, after={"id": 2, "name": "b"}, unchanged=["big"]),
    ]
    with pytest.raises(RecordError, match=r"LSN 0/D: the key of the row .*2} .* of big was not sent.*FULL"):
        mirrored.batch(*moved)
    mirrored.apply(2, 6, on_missing="null")
    assert mirrored.rows == Counter([(2, "b", None)])
    aside = mirror(ID, NAME, BIG, named=f"{target}_2")
    aside.write(*mirrored.written[:2])
    aside.apply(0, 2)
    aside.write(*moved)
    aside.apply(2, 6, corrupt_to=f"{target}_corrupt")
    assert aside.rows == Counter()
    # Later updates of it are rejected too, until one has the value.
    aside.batch(
        change("u", 14, after={"id": 2, "name": "c"}, unchanged=["big"]), corrupt_to=f"{target}_corrupt"
    )
    assert rows(mirrored.named("_corrupt"), "offset") == Counter([(4,), (5,), (6,)])
    aside.batch(change("u", 15, after=row(2, "c", "z")), corrupt_to=f"{target}_corrupt")
    assert aside.rows == Counter([(2, "c", "z")])


def test_a_key_change_to_a_deleted_rows_key_without_a_large_value_is_refused(
    mirror: Mirror, target: str
) -> None:
    mirrored = mirror(ID, NAME, BIG)
    mirrored.batch(change("c", 10, 0, after=row(1, "a", "x")), change("c", 10, 1, after=row(2, "old", "y")))
    # As it comes if the relay writes no keys.
    moved = [
        change("d", 11, before={"id": 2}),
        change("u", 12, before={"id": 1}, after={"id": 2, "name": "a"}, unchanged=["big"]),
    ]
    with pytest.raises(RecordError, match=r"LSN 0/C: the key of the row .*2} .* of big was not sent.*FULL"):
        mirrored.batch(*moved)
    mirrored.apply(2, 4, corrupt_to=f"{target}_corrupt")
    assert mirrored.rows == Counter()  # its earlier row is gone too
    assert rows(mirrored.named("_corrupt"), "offset") == Counter([(3,)])


def test_a_key_change_without_a_large_value_is_harmless_if_the_row_goes(mirror: Mirror) -> None:
    mirrored = mirror(ID, NAME, BIG)
    mirrored.batch(
        change("c", 12, after={"id": 2, "name": "a"}, unchanged=["big"]),
        change("d", 13, before={"id": 2}),
        change("c", 14, after={"id": 3, "name": "a"}, unchanged=["big"]),
        change("u", 15, after=row(3, "a", "told")),
    )
    assert mirrored.rows == Counter([(3, "a", "told")])


@both_formats
def test_an_update_of_a_missing_row_is_refused_null_or_rejected(
    mirror: Mirror, target: str, using: Using
) -> None:
    mirrored = mirror(ID, NAME, BIG, using=using)
    mirrored.batch(change("c", 10, 0, after=row(1, "a", "x")), change("c", 10, 1, after=row(2, "b", "y")))
    some_there = [
        change("u", 11, 0, after={"id": 1, "name": "A"}, unchanged=["big"]),
        change("u", 11, 1, after={"id": 3, "name": "c"}, unchanged=["big"]),
        change("d", 11, 2, before={"id": 2}),
        change("u", 11, 3, before={"id": 4}, after=row(5, "e", "z")),
    ]
    with pytest.raises(RecordError, match=r"the row .*3} leaves out the large value of big, .*on_missing"):
        mirrored.batch(*some_there)
    assert mirrored.rows == Counter([(1, "a", "x"), (2, "b", "y")])
    mirrored.apply(2, 6, corrupt_to=f"{target}_corrupt")
    assert mirrored.rows == Counter([(1, "A", "x"), (5, "e", "z")])
    assert rows(mirrored.named("_corrupt"), "offset") == Counter([(3,)])
    mirrored.batch(change("u", 12, after={"id": 3, "name": "C"}, unchanged=["big"]), on_missing="null")
    assert mirrored.rows == Counter([(1, "A", "x"), (3, "C", None), (5, "e", "z")])


def test_an_unreadable_record_fails_the_batch_or_goes_to_the_rejects(mirror: Mirror, target: str) -> None:
    mirrored = mirror(ID, NAME)
    value = change("c", 11, after={"id": 2**31, "name": "b"}).value
    assert value is not None
    bad = Message(value.replace(b',"source"', b',\n"source"'))  # the error is one line anyway
    with pytest.raises(
        RecordError, match=r"partition 0 offset 1: id: '2147483648' is not exactly a int.*as_text"
    ):
        mirrored.batch(change("c", 10, after={"id": 1, "name": "a"}), bad)
    for _ in range(2):
        mirrored.apply(0, 2, corrupt_to=f"{target}_corrupt")
    assert mirrored.rows == Counter([(1, "a")])
    assert rows(mirrored.named("_corrupt"), "partition", "offset") == Counter([(0, 1)])


def test_a_flat_update_without_its_old_row_is_refused_without_a_key(
    mirror: Mirror,
) -> None:
    mirrored = mirror(NAME, identity="full")
    created = flat("c", 10, row={"name": None})
    with pytest.raises(RecordError, match=r"partition 0 offset 1: an update in the flat envelope .*debezium"):
        mirrored.batch(created, flat("u", 11, row={"name": "b"}), on_missing="null")
    mirrored.apply(0, 1)
    assert mirrored.rows == Counter([(None,)])


@both_formats
def test_a_table_without_a_key_is_appended_to_exactly_once(mirror: Mirror, using: Using) -> None:
    mirrored = mirror(NAME, using=using)
    mirrored.batch(change("c", 10, 0, after={"name": "a"}), change("c", 10, 1, after={"name": "a"}))
    forget(lake_table(mirrored.spark, mirrored.target, mirrored.using), TOPIC)
    mirrored.batch(change("c", 10, 1, after={"name": "a"}), change("c", 11, 0, after={"name": None}))
    assert mirrored.rows == Counter({("a",): 2, (None,): 1})
    with pytest.raises(RecordError, match=r"op 'd' of a table without a key: .*REPLICA IDENTITY FULL"):
        mirrored.batch(change("d", 12, before={"name": "a"}))


@both_formats
def test_without_a_key_whole_rows_identify_rows(mirror: Mirror, using: Using) -> None:
    pairs = Column("pairs", "_hstore", encoding="array<object>")
    mirrored = mirror(NAME, pairs, using=using, identity="full")
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
    forget(lake_table(mirrored.spark, mirrored.target, mirrored.using), TOPIC)
    mirrored.apply(5, 9)
    assert Counter(r.name for r in mirrored.table.collect()) == expected


@both_formats
def test_deleting_a_missing_whole_row_is_refused(mirror: Mirror, using: Using) -> None:
    mirrored = mirror(NAME, BIG, using=using, identity="full")
    a, b = {"name": "a", "big": None}, {"name": "b", "big": "x"}
    mirrored.batch(*(change("c", 10, n, after=a) for n in range(2)))
    with pytest.raises(RecordError, match=r"LSN 0/B: .* lacks the row that was deleted.*on_missing='null'"):
        mirrored.batch(change("d", 11, 0, before=a), change("d", 11, 1, before=a | {"big": "5"}))
    assert mirrored.rows == Counter({("a", None): 2})
    three = [change("u", 12, n, before=a, after=b) for n in range(3)]
    with pytest.raises(RecordError, match=r"LSN 0/C: .* lacks the row that was"):
        mirrored.batch(*three)
    mirrored.apply(4, 7, on_missing="null")
    assert mirrored.rows == Counter({("b", "x"): 3})
    # The same if the batch restores such a row: Postgres has it, and the target lacks it.
    c, e = {"name": "c", "big": None}, {"name": "e", "big": None}
    same = [change("u", 13, 0, before=c, after=c), change("d", 14, 0, before=e), change("c", 14, 1, after=e)]
    same.append(change("u", 15, before=b, after=b))  # this one exists
    with pytest.raises(RecordError, match=r"LSN 0/[DE]: .* lacks the row that was.*TRUNCATE"):
        mirrored.batch(*same)
    mirrored.apply(7, 11, on_missing="null")
    assert mirrored.rows == Counter({("b", "x"): 3, ("c", None): 1, ("e", None): 1})


def test_leftovers_of_a_dropped_target_are_not_taken_for_a_new_ones(
    spark: SparkSession, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirrored = mirror(ID)
    mirrored.batch(change("c", 10, after={"id": 1}))
    spark.sql(f"DROP TABLE iceberg.{mirrored.target}")  # which leaves the positions table
    with monkeypatch.context() as killed:
        killed.setattr(Target, "write", lambda *_: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception, match="killed"):
            mirrored.apply(0, 1)
    mirrored.apply(0, 1)
    assert mirrored.rows == Counter([(1,)])


def test_a_delete_by_an_earlier_key_is_refused_or_rejected(mirror: Mirror, target: str) -> None:
    mirrored = mirror(replace(ID, key=False), Column("code", "text", key=True))
    one, two = {"id": 1, "code": "a"}, {"id": 2, "code": "b"}
    mirrored.batch(change("c", 10, 0, after=one), change("c", 10, 1, after=two))
    with pytest.raises(RecordError, match=r"partition 0 offset 3, op 'd': .* lacks code, .*corrupt_to"):
        mirrored.batch(change("d", 11, before={"code": "a"}), change("d", 12, before={"id": 2}))
    mirrored.apply(2, 4, corrupt_to=f"{target}_corrupt")
    assert mirrored.rows == Counter([(2, "b")])
    assert rows(mirrored.named("_corrupt"), "offset") == Counter([(3,)])


def test_a_batch_read_with_another_schema_is_refused(mirror: Mirror) -> None:
    mirrored = mirror(ID, NAME)
    changes = changes_of(mirrored.spark, mirrored.schema, [change("c", 10, after={"id": 1, "name": "a"})])
    for other in (table(TOPIC, ID), table(TOPIC, ID, NAME, BIG)):
        refusal = r"not read with this schema: .* struct<id:int,name:string>; give"
        with pytest.raises(SetupError, match=refusal):
            pg.apply_changes(changes, mirrored.target, schema=other, using="iceberg")


def test_a_stream_or_an_unknown_choice_is_refused(mirror: Mirror) -> None:
    mirrored = mirror(ID)
    stream = mirrored.spark.readStream.format("rate").load()
    with pytest.raises(SetupError, match="the batch is a stream: call apply_changes in its foreachBatch"):
        pg.apply_changes(stream, mirrored.target, schema=mirrored.schema)
    with pytest.raises(SetupError, match="on_missing='error': write fail or null"):
        mirrored.batch(change("c", 10, after={"id": 1}), on_missing="error")


def test_records_of_another_topic_are_refused_without_creating_a_target(mirror: Mirror) -> None:
    mirrored = mirror(ID)
    changes = changes_of(mirrored.spark, mirrored.schema, [change("c", 10, after={"id": 1})])
    with pytest.raises(SetupError, match=rf"records of {TOPIC}, but the schema is app.public.other's: give"):
        pg.apply_changes(changes, mirrored.target, schema=table("app.public.other", ID), using=mirrored.using)
    mirrored.batch(change("c", 10, after={"id": 1}))
    assert mirrored.rows == Counter([(1,)])


def test_rows_of_another_cluster_are_refused_with_the_cure(mirror: Mirror) -> None:
    mirrored = mirror(ID)
    mirrored.batch(change("c", 10, after={"id": 1}))
    mirrored.schema = table(TOPIC, ID, systemid="2")
    with pytest.raises(
        GapError,
        match=r"cluster 2, but .* holds rows of cluster 1 up to LSN 0/A, .*pgrelay\.spark\.drop\(spark, ",
    ):
        mirrored.batch(change("c", 5, after={"id": 2}))


def test_a_target_accepts_only_one_topic(mirror: Mirror) -> None:
    mirrored, intruder = mirror(ID), mirror(ID)
    mirrored.batch(change("c", 10, after={"id": 1}), change("d", 11, before={"id": 1}))
    intruder.schema = table("app.public.other", ID)
    with pytest.raises(SetupError, match=rf"has the rows of {TOPIC}: name another .* for app.public.other"):
        intruder.batch(change("c", 12, after={"id": 2}))
    mirrored.batch(change("c", 10, after={"id": 1}))  # the target still knows that this row was deleted
    assert mirrored.rows == Counter()


def test_a_table_that_is_not_a_target_is_refused(spark: SparkSession, mirror: Mirror, target: str) -> None:
    lake_table(spark, target, "iceberg").create(StructType().add("id", IntegerType()))
    with pytest.raises(SetupError, match="was not made by pgrelay"):
        mirror(ID).batch(change("c", 10, after={"id": 1}))
