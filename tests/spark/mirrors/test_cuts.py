"""Mirrors that are killed after each of their writes end equal to the table.

Each time the same batch comes again to a mirror without any memory, as Spark does it. Most tests use Iceberg,
which is faster, and those of changed columns Delta too.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pgrelay import spark as pg
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.positions import SUFFIX, Positions
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.mirrors.batches import Batches, Reading, Writing
from pgrelay.spark.mirrors.checkpoint import Checkpoint
from pgrelay.spark.mirrors.query import QuerySource
from pgrelay.spark.mirrors.whole_transactions import WholeTransactions
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableSchema, TableVersion
from pgrelay.spark.schemas.schema_topic import SchemaTopic
from tests.long import long
from tests.spark.cuts import Cuts
from tests.spark.handmade_records import Message, Row, as_read, change, json_reader, rows, table, tombstone

TOPIC = "app.public.t"
ID = Column("id", "int4", key=True, encoding="integer")
NAME, TITLE, BIG, EXTRA = (Column(name, "text") for name in ("name", "title", "big", "extra"))
N = Column("n", "int4", encoding="integer")
WIDE = replace(N, type_name="int8")


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> Cuts:
    return Cuts(monkeypatch)


class Read(Reading):
    """Builds the expressions that read a schema's records only once, since this takes longest."""

    def changes(self, records: DataFrame, schema: TableSchema) -> DataFrame:
        return json_reader(schema).changes(records)


class Mirrored:
    """A target, and the batches of its topic that one mirror after another applies to it."""

    def __init__(self, spark: SparkSession, target: str, using: Using, **choices: Any) -> None:
        self.spark = spark
        self.table = lake_table(spark, target, using)
        self._writing = Writing({TOPIC: target}, using, **choices)
        self._written: list[Message] = []

    def batch(self, schema: TableSchema, *messages: Message) -> Callable[[], None]:
        """Return a function that applies these records with a new mirror at each call."""
        ends = Counter(message.partition for message in self._written)
        self._written += messages
        is_new = [f"partition = {n} AND offset >= {ends[n]}" for n in {m.partition for m in messages}]
        records = as_read(self.spark, TOPIC, self._written).where(" OR ".join(is_new)).persist()

        def apply() -> None:
            Batches(SchemaTopic("", "app"), Read(), self._writing).apply_topics(records, {TOPIC: schema})

        return apply

    def rejected(self) -> Counter[tuple[Any, ...]]:
        """The offsets of the rejected records."""
        assert self._writing.corrupt_to
        return rows(lake_table(self.spark, self._writing.corrupt_to, self._writing.using).rows(), "offset")

    def found(self, *columns: str) -> Counter[tuple[Any, ...]]:
        return rows(self.table.rows(), *columns)


def versions(*known_versions: tuple[int, list[Column]], identity: str = "default") -> TableSchema:
    """A schema of these columns, each from an LSN on."""
    return replace(
        table(TOPIC),
        versions=tuple(TableVersion((lsn, 0), tuple(columns), identity) for lsn, columns in known_versions),
    )


def test_a_table_with_a_key_survives_every_kill(spark: SparkSession, cuts: Cuts, target: str) -> None:
    known = versions((1, [ID, BIG]))
    mirrored = Mirrored(spark, target, "iceberg", corrupt_to=f"{target}_corrupt")
    first = [change("c", 10, n, after={"id": n, "big": "x"}) for n in range(4)]
    cuts.at_each_write(mirrored.batch(known, *first, change("c", 11, after={"id": 2**31, "big": None})))
    cuts.at_each_write(
        mirrored.batch(
            known,
            change("d", 20, 0, before={"id": 0}),
            change("t", 20, 1),
            change("c", 20, 2, after={"id": 1, "big": "new"}),
            change("u", 20, 3, after={"id": 1}, unchanged=["big"]),
        )
    )
    assert mirrored.found("id", "big", "__commit_lsn", "__seq") == Counter([(1, "new", 20, 3)])
    assert Positions.read(mirrored.table, known).applied.by_partition == {0: (20, 3)}
    assert mirrored.rejected() == Counter([(4,)])
    assert {each.split()[0] for each in cuts.behind} >= {"CREATE", "overwrite", "MERGE", "ALTER"}


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_columns_that_change_twice_in_a_batch_survive_every_kill(
    spark: SparkSession, cuts: Cuts, target: str, using: Using
) -> None:
    known = versions((1, [ID, NAME, BIG, N]), (100, [ID, TITLE, BIG, N]), (200, [ID, BIG, WIDE, EXTRA]))
    mirrored = Mirrored(spark, target, using, corrupt_to=f"{target}_corrupt")

    def row(number: int, name: str, big: str | None = None) -> Row:
        return {"id": number, "name": name, "big": big, "n": number}

    mirrored.batch(known.until((1, 0)), *(change("c", 10, n, after=row(n, "a", "x")) for n in range(1, 6)))()
    following = mirrored.batch(
        known,
        change("u", 30, after={"id": 1, "name": "A", "n": 1}, unchanged=["big"]),
        change("d", 31, before={"id": 2}),
        tombstone({"id": 2}),
        change("d", 32, 0, before={"id": 3}),
        change("c", 32, 1, after=row(6, "a", "moved")),
        Message(b"garbage"),
        change("u", 110, after={"id": 1, "title": "AA", "n": 1}, unchanged=["big"]),
        change("c", 111, after={"id": 7, "title": "b", "big": None, "n": 7}),
        change("d", 210, before={"id": 7}),
        change("u", 211, after={"id": 4, "n": 2**40, "extra": "e"}, unchanged=["big"]),
    )
    cuts.at_each_write(following, of="COLUMN" if using == "delta" else "")
    expected = [(1, "x", 1, None), (4, "x", 2**40, "e"), (5, "x", 5, None), (6, "moved", 6, None)]
    assert mirrored.found() == Counter(expected)
    assert mirrored.rejected() == Counter([(10,)])
    assert Positions.read(mirrored.table, known).applied.by_partition == {0: (211, 0)}
    assert any("COLUMN" in each for each in cuts.behind)


def test_whole_rows_of_a_table_that_gets_a_key_survive_every_kill(
    spark: SparkSession, cuts: Cuts, target: str
) -> None:
    known = versions((1, [NAME, N]), (100, [replace(NAME, key=True), N]), identity="full")
    mirrored = Mirrored(spark, target, "iceberg")
    a, b = {"name": "a", "n": 1}, {"name": "b", "n": None}
    mirrored.batch(known.until((1, 0)), *(change("c", 10, n, after=a) for n in range(5)))()
    cuts.at_each_write(
        mirrored.batch(
            known.until((1, 0)),
            change("d", 20, before=a),
            *(change("u", 21, n, before=a, after=b) for n in range(2)),
            change("c", 22, after=b),
        )
    )
    assert mirrored.found() == Counter({("a", 1): 2, ("b", None): 3})
    # Changes from before a truncate come after it in another partition, under another key.
    emptied = change("t", 30), change("c", 31, 0, after=a), change("c", 31, 1, after=b)
    cuts.at_each_write(mirrored.batch(known.until((1, 0)), *emptied))
    mirrored.batch(known.until((1, 0)), change("c", 5, after=b, partition=1))()
    assert mirrored.found() == Counter([("a", 1), ("b", None)])
    cuts.at_each_write(
        mirrored.batch(
            known, change("d", 40, before=a), change("u", 110, before={"name": "b", "n": None}, after=a)
        )
    )
    assert mirrored.found() == Counter([("a", 1)])
    assert Positions.read(mirrored.table, known).applied.by_partition == {0: (110, 0)}


def test_an_append_only_table_survives_every_kill(spark: SparkSession, cuts: Cuts, target: str) -> None:
    known, mirrored = versions((1, [NAME])), Mirrored(spark, target, "iceberg")
    a = {"name": "a"}
    mirrored.batch(known, *(change("c", 10, n, after=a) for n in range(2)))()
    cuts.at_each_write(mirrored.batch(known, *(change("c", 20, n, after=a) for n in range(2))))
    assert mirrored.found("name", "__commit_lsn", "__seq") == Counter(
        [("a", lsn, seq) for lsn in (10, 20) for seq in (0, 1)]
    )
    cuts.at_each_write(
        mirrored.batch(known, change("c", 30, 0, after=a), change("t", 30, 1), change("c", 30, 2, after=a))
    )
    assert mirrored.found("name", "__commit_lsn", "__seq") == Counter([("a", 30, 2)])
    assert Positions.read(mirrored.table, known).applied.truncated == (30, 1)


def test_history_survives_every_kill(spark: SparkSession, cuts: Cuts, target: str) -> None:
    known = versions((1, [ID, BIG]), (100, [ID, BIG, N]))
    mirrored = Mirrored(spark, target, "iceberg", history=True)
    mirrored.batch(
        known.until((1, 0)), *(change("c", 10 + n, after={"id": n, "big": "x"}) for n in range(1, 4))
    )()
    cuts.at_each_write(
        mirrored.batch(
            known,
            change("u", 20, after={"id": 1}, unchanged=["big"]),
            change("d", 21, before={"id": 2}),
            change("c", 22, after={"id": 2, "big": "y"}),
            change("t", 30),
            change("c", 31, after={"id": 1, "big": "z"}),
            change("u", 32, after={"id": 1}, unchanged=["big"]),
            change("u", 110, after={"id": 1, "n": 7}, unchanged=["big"]),
        )
    )
    expected = [
        *[(1, "x", None, 11, 20), (1, "x", None, 20, 30), (2, "x", None, 12, 21), (2, "y", None, 22, 30)],
        *[(3, "x", None, 13, 30), (1, "z", None, 31, 32), (1, "z", None, 32, 110), (1, "z", 7, 110, None)],
    ]
    assert mirrored.found("id", "big", "n", "__commit_lsn", "__end_lsn") == Counter(expected)
    ends = mirrored.table.rows().select("__end_lsn", "__valid_to").distinct().collect()
    assert {end: at and at.microsecond for end, at in ends} == {
        end: end for end in (20, 21, 30, 32, 110, None)
    }


@pytest.mark.parametrize("using", [pytest.param("delta", marks=long), "iceberg"])
def test_history_of_columns_with_dropped_ones_names_survives_every_kill(
    spark: SparkSession, cuts: Cuts, target: str, using: Using
) -> None:
    number, renamed = replace(N, name="Name"), replace(N, name="name")
    tables = [[ID, NAME, N], [ID, N], [ID, N, NAME], [ID, N], [ID, N, number], [ID, N], [ID, renamed]]
    known = versions(*((100 * at + 1, columns) for at, columns in enumerate(tables)))
    mirrored = Mirrored(spark, target, using, history=True)
    first = (change("c", 10, at, after={"id": at, "name": "a", "n": at}) for at in range(2))
    mirrored.batch(known.until((1, 0)), *first)()
    rows: list[Row] = [{"n": 1}, {"n": 1, "name": "b"}, {"n": 1}, {"n": 1, "Name": 7}, {"n": 1}, {"name": 2}]
    updates = (change("u", 100 * at + 10, after={"id": 1, **row}) for at, row in enumerate(rows, 1))
    cuts.at_each_write(mirrored.batch(known, *updates), of="COLUMN")
    asides = [
        f"{name}__before_{lsn}" for name, lsn in [("name", "0_C9"), ("name", "0_191"), ("Name", "0_259")]
    ]
    assert mirrored.found("id", "name", *asides, "__commit_lsn") == Counter(
        [
            *[(0, 0, "a", None, None, 10), (1, 1, "a", None, None, 10), (1, 1, None, None, None, 110)],
            *[(1, 1, None, "b", None, 210), (1, 1, None, None, None, 310), (1, 1, None, None, 7, 410)],
            *[(1, 1, None, None, None, 510), (1, 2, None, None, None, 610)],
        ]
    )


class Whole:
    """A mirror of whole transactions, with a checkpoint as Spark would have written it."""

    def __init__(self, spark: SparkSession, folder: Path, *targets: tuple[TableSchema, str]) -> None:
        self.spark = spark
        self._folder = folder
        self._schemas = FixedSchemas({schema.topic: schema for schema, _ in targets})
        self._writing = Writing({schema.topic: target for schema, target in targets}, "iceberg")
        (folder / "offsets").mkdir()
        (folder / "metadata").write_text(json.dumps({"id": folder.name}))

    def batch(self, number: int, **messages: list[Message]) -> Callable[[], None]:
        """Return a function that applies these records as this batch of the query."""
        frames = [as_read(self.spark, _topic(name), each) for name, each in messages.items()]
        records = frames[0]
        for frame in frames[1:]:
            records = records.union(frame)
        ends = {_topic(name): {"0": number + 100} for name in messages}
        (self._folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{json.dumps(ends)}")
        records = records.withColumn("offset", F.col("offset") + 100 * number).persist()

        def apply() -> None:
            source = QuerySource(self.spark, "", None, Checkpoint(self.spark, str(self._folder)))
            batches = Batches(self._schemas, Read(), self._writing)
            WholeTransactions("app", batches, source).apply(records, number)

        return apply

    def shown(self) -> list[Counter[tuple[Any, ...]]]:
        """The rows of each target; asserts that they are those at the position."""
        found = []
        for name in self._writing.tables.values():
            position = pg.mirror_position(self.spark, name, using="iceberg")
            assert position is not None
            target = lake_table(self.spark, name, "iceberg")
            found.append(rows(target.rows()))
            version = f"SELECT * FROM {target.name} VERSION AS OF {position.versions[name]}"
            assert rows(self.spark.sql(version)) == found[-1]
        return found


class FixedSchemas(SchemaTopic):
    """A schema topic with these schemas."""

    def __init__(self, schemas: dict[str, TableSchema]) -> None:
        super().__init__("", "app")
        self._all = schemas

    def read_with_uncommitted(self, spark: SparkSession, topics: Any) -> dict[str, TableSchema]:
        return self._all


def _topic(name: str) -> str:
    return f"app.{name}" if name == "transaction" else f"app.public.{name}"


def boundaries(lsn: int, **events: int) -> list[Message]:
    counts = [{"data_collection": f"public.{name}", "event_count": n} for name, n in events.items()]
    begin = {"status": "BEGIN", "data_collections": None, "ts_ms": lsn, "commit_lsn": lsn}
    end = {"status": "END", "data_collections": counts, "ts_ms": lsn, "commit_lsn": lsn}
    return [Message(json.dumps(each).encode()) for each in (begin, end)]


A = replace(
    table(_topic("a")),
    table="a",
    versions=(TableVersion((1, 0), (ID, NAME)), TableVersion((500, 1), (ID, NAME, N))),
)
B = replace(table(_topic("b"), NAME, identity="full"), table="b")


def of_a(lsn: int, seq: int, number: int, name: str) -> Message:
    return change("c", lsn, seq, after={"id": number, "name": name})


def test_whole_transactions_survive_every_kill(
    spark: SparkSession, cuts: Cuts, target: str, tmp_path: Path
) -> None:
    mirror = Whole(spark, tmp_path, (A, f"{target}_a"), (B, f"{target}_b"))
    x, y = {"name": "x"}, {"name": "y"}
    cuts.at_each_write(
        mirror.batch(
            0,
            a=[of_a(100, 0, 1, "a"), of_a(100, 1, 2, "b"), of_a(200, 1, 3, "c")],
            b=[change("c", 100, 2, after=x), change("c", 100, 3, after=x)],
            # The end of 200 comes before its row of b.
            transaction=[*boundaries(100, a=2, b=2), *boundaries(200, a=1, b=1)],
        ),
        of="CREATE",
    )
    assert mirror.shown() == [Counter([(1, "a"), (2, "b")]), Counter({("x",): 2})]
    cuts.at_each_write(
        mirror.batch(
            10,  # the number of a batch that cleans up
            a=[change("t", 300, 0), of_a(300, 1, 4, "d"), of_a(400, 0, 5, "e")],
            b=[change("u", 200, 0, before=x, after=y), change("c", 300, 2, after=y)],
            transaction=[*boundaries(300, a=2, b=1), boundaries(400)[0]],
        ),
        but=SUFFIX,  # other tests kill mirrors between a write and its position
    )
    assert mirror.shown() == [Counter([(4, "d")]), Counter({("x",): 1, ("y",): 2})]
    altered = change("c", 500, 1, after={"id": 7, "name": "g", "n": 7})
    ends = [boundaries(400, a=1)[1], *boundaries(500, a=2)]
    mirror.batch(11, a=[of_a(500, 0, 6, "f"), altered], transaction=ends)()
    assert mirror.shown()[0] == Counter([(4, "d", None), (5, "e", None), (6, "f", None), (7, "g", 7)])
    # No version shows half of a transaction either.
    name = f"iceberg.{target}_a"
    for version in spark.table(f"{name}.snapshots").collect():
        seen = spark.sql(f"SELECT id FROM {name} VERSION AS OF {version.snapshot_id}").collect()
        assert {row.id for row in seen} in [{1, 2}, {1, 2, 3}, {4}, {4, 5}, {4, 5, 6, 7}]
