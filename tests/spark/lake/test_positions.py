"""What a target records about itself: whose rows it has, and with which schema."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pgrelay import spark as pg
from pgrelay.errors import GapError, PgrelayError, SetupError
from pgrelay.spark.failures import wrap_java_errors
from pgrelay.spark.lake import target as targets
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.merge import merge_rows
from pgrelay.spark.lake.positions import Positions, positions_table, target_properties
from pgrelay.spark.lake.tables import LakeTable, Using
from pgrelay.spark.lake.target import Target
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableSchema, TableVersion
from tests.integration.waiting import wait_until
from tests.spark.handmade_records import Topic, change, rows, table

ID = Column("id", "int4", key=True, encoding="integer")
A = Column("a", "text")


def from_registry(schema: TableSchema) -> TableSchema:
    """The last version as a schema registry gives it: without a cluster and without an LSN."""
    return replace(schema, versions=(replace(schema.latest, position=(0, 0)),), systemid="")


@pytest.mark.parametrize("registry_first", [True, False])
def test_an_unknown_cluster_is_not_taken_for_another_one(
    topic: Topic, target: str, registry_first: bool
) -> None:
    of_topic = table(topic.name, ID, systemid="1")
    schemas = [from_registry(of_topic), of_topic, from_registry(of_topic)][0 if registry_first else 1 :]
    for number, schema in enumerate(schemas):
        topic.write(change("c", 10 + number, after={"id": number}))
        changes = topic.changes(schema).where(f"offset = {number}")
        pg.apply_changes(changes, target, schema=schema, using="iceberg")
    lake = lake_table(topic.spark, target, "iceberg")
    assert rows(lake.rows()) == {(number,): 1 for number in range(len(schemas))}
    # A known cluster is remembered.
    other = table(topic.name, ID, systemid="2")
    with pytest.raises(GapError, match=r"written by Postgres cluster 2, but .* holds rows of cluster 1"):
        pg.apply_changes(topic.changes(other), target, schema=other, using="iceberg")


def test_a_cluster_is_remembered_if_the_schema_stays(topic: Topic, target: str) -> None:
    """For example from Postgres's catalogue, which knows the cluster, but no LSN."""
    registered = from_registry(table(topic.name, ID))
    for lsn, schema in enumerate([registered, replace(registered, systemid="1")], 10):
        topic.write(change("c", lsn, after={"id": lsn}))
        pg.apply_changes(topic.changes(schema), target, schema=schema, using="iceberg")
    properties = lake_table(topic.spark, target, "iceberg").properties()
    assert target_properties(replace(registered, systemid="1")).items() <= properties.items()


def test_a_column_readded_before_the_target_was_created_keeps_its_values(topic: Topic, target: str) -> None:
    versions = [TableVersion((1 + 100 * n, 0), each) for n, each in enumerate([(ID, A), (ID,), (ID, A)])]
    schema_read = TableSchema(topic.name, "public", "t", tuple(versions), "1")
    topic.write(change("c", 210, after={"id": 1, "a": "x"}), change("c", 211, after={"id": 2, "a": "y"}))
    for number, schema in enumerate([from_registry(schema_read), schema_read]):
        changes = topic.changes(schema).where(f"offset = {number}")
        pg.apply_changes(changes, target, schema=schema, using="iceberg")
    assert rows(lake_table(topic.spark, target, "iceberg").rows()) == Counter([(1, "x"), (2, "y")])


class Driver:
    """One of several mirrors of a topic to one target; it remembers what it has applied."""

    def __init__(self, topic: Topic, target: str, using: Using, schema: TableSchema) -> None:
        self._topic = topic
        self.schema = schema
        self.table = lake_table(topic.spark, target, using)
        self.target = Target(self.table, schema)

    def apply(self, start: int, end: int) -> None:
        """Apply the records of these offsets."""
        changes = self._topic.changes(self.schema).where(f"offset >= {start} AND offset < {end}")
        with wrap_java_errors("driver"):
            self.target.apply(changes, self.schema)


def two_drivers(topic: Topic, target: str, using: Using = "iceberg") -> tuple[Driver, Driver]:
    """Two drivers: the first has created the target, the second has found it."""
    schema = table(topic.name, ID)
    topic.write(
        change("c", 10, after={"id": 1}), change("c", 20, after={"id": 2}), change("d", 30, before={"id": 2})
    )
    old = Driver(topic, target, using, schema)
    old.apply(0, 1)
    return old, Driver(topic, target, using, schema)


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_a_driver_that_wakes_up_behind_another_restores_no_row(
    topic: Topic, target: str, using: Using
) -> None:
    old, new = two_drivers(topic, target, using)
    new.apply(1, 2)
    new.apply(2, 3)
    with pytest.raises(PgrelayError, match=r"another mirror writes to .* at LSN 0/1E, this one at 0/A: end"):
        old.apply(1, 2)
    assert rows(old.table.rows()) == {(1,): 1}
    assert Positions.read(old.table, old.schema).applied.by_partition == {0: (30, 0)}
    new.apply(2, 3)  # which goes on


@pytest.mark.parametrize("whole", [True, False])
def test_positions_that_were_dropped_are_no_other_drivers(topic: Topic, target: str, whole: bool) -> None:
    old, _ = two_drivers(topic, target)
    if whole:
        pg.drop(topic.spark, target, using="iceberg")
        message = r"[^_]` was dropped while the mirror ran: take a new checkpoint"
    else:
        topic.spark.sql(f"DROP TABLE {positions_table(old.table).name}")
        message = r"__positions` was dropped while the mirror ran: call pgrelay\.spark\.drop"
    with pytest.raises(SetupError, match=message):
        old.apply(1, 2)


def test_a_target_that_is_renamed_needs_what_is_remembered_of_it(topic: Topic, target: str) -> None:
    """Without it, a repetition that ends before a delete would restore the row."""
    old, new = two_drivers(topic, target, "delta")
    new.apply(1, 3)
    renamed = f"{target}_renamed"
    topic.spark.sql(f"ALTER TABLE {target} RENAME TO {renamed}")
    with pytest.raises(SetupError, match=r"_renamed` has rows, but .*_renamed__positions`, .*rename that"):
        Driver(topic, renamed, "delta", old.schema)
    topic.spark.sql(f"ALTER TABLE {target}__positions RENAME TO {renamed}__positions")
    mirror = Driver(topic, renamed, "delta", old.schema)
    mirror.apply(0, 2)  # a repetition
    assert rows(mirror.table.rows()) == {(1,): 1}


def test_rows_without_a_key_are_not_added_twice_to_a_target_of_which_nothing_is_remembered(
    topic: Topic, target: str
) -> None:
    schema = table(topic.name, A, identity="full")
    topic.write(*(change("c", 10, number, after={"a": "x"}) for number in range(2)))
    lake = Driver(topic, target, "iceberg", schema)
    lake.apply(0, 2)
    lake.table.spark.sql(f"DROP TABLE {positions_table(lake.table).name}")
    # Nor does the snapshot tell, with the mark of what was written.
    lake.table.run(f"DELETE FROM {lake.table.name} WHERE __seq = 0")
    pg.purge(topic.spark, target, older_than=timedelta(0), using="iceberg")
    with pytest.raises(SetupError, match=r"does not exist: .*; if it was dropped, call pgrelay\.spark\.drop"):
        Driver(topic, target, "iceberg", schema).apply(0, 2)
    assert rows(lake.table.rows()) == {("x",): 1}


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_a_mirror_that_was_killed_in_its_first_batch_goes_on(
    topic: Topic, target: str, using: Using, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = table(topic.name, ID)
    topic.write(change("c", 10, after={"id": 1}), change("c", 20, after={"id": 2}))
    with monkeypatch.context() as killed:
        killed.setattr(Positions, "write", lambda *_: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception, match="killed"):
            Driver(topic, target, using, schema).apply(0, 1)
    again = Driver(topic, target, using, schema)
    assert rows(again.table.rows()) == {(1,): 1}
    again.apply(0, 2)
    assert rows(again.table.rows()) == {(1,): 1, (2,): 1}


def test_a_driver_behind_another_with_the_same_batch_is_refused(topic: Topic, target: str) -> None:
    old, new = two_drivers(topic, target)
    new.apply(1, 2)
    with pytest.raises(PgrelayError, match=r"another mirror .* at LSN 0/14, this one at 0/A: end"):
        old.apply(1, 2)


def test_a_driver_behind_one_that_created_the_target_is_refused(topic: Topic, target: str) -> None:
    schema = table(topic.name, ID)
    topic.write(change("c", 10, after={"id": 1}), change("d", 20, before={"id": 1}))
    old, new = (Driver(topic, target, "iceberg", schema) for _ in range(2))
    new.apply(0, 2)
    with pytest.raises(PgrelayError, match=r"another mirror has created .*: end one of the two"):
        old.apply(0, 1)
    assert Positions.read(old.table, schema).applied.by_partition == {0: (20, 0)}


def test_a_driver_behind_another_does_not_change_columns_back(topic: Topic, target: str) -> None:
    known = TableSchema(
        topic.name,
        "public",
        "t",
        tuple(TableVersion((1 + 100 * n, 0), each) for n, each in enumerate([(ID,), (ID, A), (ID,)])),
        "1",
    )
    topic.write(change("c", 10, after={"id": 1}), change("c", 210, after={"id": 2}))
    old = Driver(topic, target, "iceberg", known.until((1, 0)))
    old.apply(0, 1)
    new = Driver(topic, target, "iceberg", known)
    new.apply(1, 2)
    old.schema = known.until((101, 0))
    with pytest.raises(PgrelayError, match="another mirror writes"):
        old.apply(0, 2)
    assert "a" not in old.table.rows().columns


@pytest.mark.parametrize(
    ("until", "kind", "message"),
    [
        (2, PgrelayError, r"at LSN 0/14, this one at 0/14: end one of the two"),
        (3, SetupError, r"at LSN 0/1E, .* so that deleted rows may be back, .*: end one .*spark\.drop\("),
    ],
    ids=["as far", "further"],
)
def test_a_driver_that_wrote_behind_another_reports_it(
    topic: Topic,
    target: str,
    monkeypatch: pytest.MonkeyPatch,
    until: int,
    kind: type[PgrelayError],
    message: str,
) -> None:
    """It paused between reading the positions and its MERGE."""
    old, new = two_drivers(topic, target)

    def late(*given: Any, **how: Any) -> None:
        monkeypatch.setattr(targets, "merge_rows", merge_rows)
        for offset in range(1, until):
            new.apply(offset, offset + 1)
        merge_rows(*given, **how)

    monkeypatch.setattr(targets, "merge_rows", late)
    with pytest.raises(PgrelayError, match=message) as ended:
        old.apply(1, 2)
    assert type(ended.value) is kind
    assert Positions.read(old.table, old.schema).applied.by_partition == {0: (10 * until, 0)}


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_a_merge_overtaken_by_another_fails(
    topic: Topic, target: str, using: Using, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Delta and Iceberg check it against the commits since the version in which it searched its rows."""
    old, new = two_drivers(topic, target, using)
    begun, go = tmp_path / "begun", tmp_path / "go"
    run = LakeTable.run

    def waits(number: int) -> int:
        begun.touch()
        while not go.exists():
            time.sleep(0.02)
        return number

    def slow(self: LakeTable, statement: str, **sources: DataFrame) -> None:
        monkeypatch.setattr(LakeTable, "run", run)
        wait = F.udf(waits, "int", useArrow=False).asNondeterministic()
        rows = sources["rows"]
        run(self, statement, rows=rows.withColumn("row:id", wait(F.col("`row:id`"))))

    monkeypatch.setattr(LakeTable, "run", slow)
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(old.apply, 1, 2)
        try:
            wait_until(lambda: begun.exists() or late.done(), "the MERGE to look for its rows")
            new.apply(1, 2)
            new.apply(2, 3)
        finally:
            go.touch()
        with pytest.raises(PgrelayError, match=r"(?i)concurrent|conflict"):
            late.result()
    assert rows(old.table.rows()) == {(1,): 1}
