"""Tables without a key, with your own calls: a batch may have changes under several identities."""

from collections import Counter
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import PgrelayError, RecordError, SetupError
from pgrelay.spark.lake import target as targets
from pgrelay.spark.lake.applied_positions import AppliedPositions
from pgrelay.spark.lake.batch import Batch
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.positions import Positions
from pgrelay.spark.lake.tables import LakeTable, Using
from pgrelay.spark.lake.target import Target
from pgrelay.spark.lake.unkeyed import multiset_changes
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableVersion
from tests.spark.earlier import forget
from tests.spark.handmade_records import Row, change, changes_of, rows, table
from tests.spark.java_calls import A_COLUMN, counted_calls


def test_changes_under_a_full_identity_are_applied_after_it_was_reset(
    spark: SparkSession, target: str
) -> None:
    """docs/spark.md loads earlier rows like this."""
    known = table("app.public.t", Column("name", "text"))
    [first] = known.versions
    known_versions = [
        TableVersion((lsn, 0), first.columns, identity) for lsn, identity in ((20, "full"), (30, "default"))
    ]
    a, b = {"name": "a"}, {"name": "b"}
    written = [change("c", 10, after=a), change("u", 21, before=b, after=b), change("c", 31, after=a)]
    with pytest.raises(
        RecordError, match=r"offset 1: op 'u' of .*, or if it was FULL already, read table_schemas"
    ):
        pg.apply_changes(changes_of(spark, known, written), target, schema=known, using="iceberg")
    known = replace(known, versions=(first, *known_versions))
    for _ in range(2):
        changes = changes_of(spark, known, written)
        pg.apply_changes(changes, target, schema=known, using="iceberg", on_missing="null")
    assert rows(spark.table(f"iceberg.{target}")) == Counter({("a",): 2, ("b",): 1})


def test_missing_whole_rows_are_rejected(spark: SparkSession, target: str) -> None:
    known = table("app.public.t", Column("name", "text"), identity="full")
    a, b, c = ({"name": name} for name in "abc")
    written = [change("c", 10, 0, after=a), change("c", 10, 1, after=c)]
    written += [change("d", 11, n, before=a) for n in range(2)]  # the target has one of them
    written += [change("u", 12, 0, before=b, after=b), change("d", 12, 1, before=c)]
    for batch in ("offset < 2", "offset >= 2"):
        changes = changes_of(spark, known, written).where(batch)
        aside = f"{target}_corrupt"
        pg.apply_changes(changes, target, schema=known, using="iceberg", corrupt_to=aside)
    assert rows(spark.table(f"iceberg.{target}")) == {("b",): 1}
    found = spark.table(f"iceberg.{target}_corrupt")
    assert rows(found, "offset") == {(2,): 1, (3,): 1, (4,): 1}
    assert rows(found, "corrupt").keys() == {("the target has fewer such rows than were updated or deleted",)}


def test_other_commit_metadata_is_kept_and_is_no_position(spark: SparkSession, target: str) -> None:
    known = table("app.public.t", Column("name", "text"), identity="full")
    written = [change("c", 10, after={"name": "a"}), change("c", 11, after={"name": "a"})]
    setting = "spark.databricks.delta.commitInfo.userMetadata"
    try:
        for mark in ("nightly", "[1]"):
            spark.conf.set(setting, mark)
            pg.apply_changes(changes_of(spark, known, written), target, schema=known)
            assert spark.conf.get(setting) == mark
            spark.sql(f"COMMENT ON TABLE {target} IS 'a commit of somebody else'")
            # As after a mirror of an earlier release that was killed after its commit.
            forget(lake_table(spark, target, "delta"), known.topic)
    finally:
        spark.conf.unset(setting)
    pg.apply_changes(changes_of(spark, known, written), target, schema=known)
    assert rows(spark.table(target)) == Counter({("a",): 2})


A: Row = {"name": "a"}
B: Row = {"name": "b"}


class Killable:
    """A target with five equal rows, of a table without a key under REPLICA IDENTITY FULL."""

    def __init__(self, spark: SparkSession, target: str, using: Using) -> None:
        self.table: LakeTable = lake_table(spark, target, using)
        self._target = target
        self._known = table("app.public.t", Column("name", "text"), identity="full")
        self._written = [change("c", 10, n, after=A) for n in range(5)]
        self.batch(0)
        self._written += [change("d", 20, before=A), change("u", 21, before=A, after=B)]

    def batch(self, start: int = 5) -> None:
        changes = changes_of(self.table.spark, self._known, self._written).where(f"offset >= {start}")
        pg.apply_changes(changes, self._target, schema=self._known, using=self.table.using)

    def killed_batch(self, monkeypatch: pytest.MonkeyPatch, before: tuple[Any, str]) -> None:
        with monkeypatch.context() as killed:
            killed.setattr(*before, lambda *_, **how: pytest.fail("killed"))
            with pytest.raises(pytest.fail.Exception, match="killed"):
                self.batch()

    def commit_others(self, count: int) -> None:
        """Make commits outside of the mirror that leave the rows unchanged."""
        for number in range(count):
            if self.table.using == "delta":
                self.table.set_properties({"number": str(number)})
            else:
                self.table.spark.sql(f"INSERT INTO {self.table.name} SELECT * FROM {self.table.name} LIMIT 0")

    def forget_commits(self) -> None:
        """Keep only the last commit, like a log cleanup or expired snapshots."""
        spark = self.table.spark
        if self.table.using == "iceberg":
            name = self.table.name.replace("`", "").removeprefix("iceberg.")
            now = "TIMESTAMP '9999-01-01'"
            spark.sql(f"CALL iceberg.system.expire_snapshots('{name}', {now}, 1)")
            return
        jvm: Any = spark._jvm
        [detail] = spark.sql(f"DESCRIBE DETAIL {self.table.name}").collect()
        folder = jvm.org.apache.hadoop.fs.Path(detail["location"])
        delta = jvm.org.apache.spark.sql.delta.DeltaLog
        log = delta.forTable(spark._jsparkSession, folder)
        log.checkpoint()
        *old, _ = sorted((Path(folder.toUri().getPath()) / "_delta_log").glob("*.json"))
        for file in old:
            file.unlink()
        delta.clearCache()

    @property
    def rows(self) -> Counter[tuple[Any, ...]]:
        return rows(self.table.rows())


both_formats = pytest.mark.parametrize("using", ["delta", "iceberg"])


@both_formats
def test_a_batch_is_not_applied_twice_after_many_foreign_commits(
    spark: SparkSession, target: str, using: Using, monkeypatch: pytest.MonkeyPatch
) -> None:
    killable = Killable(spark, target, using)
    killable.killed_batch(monkeypatch, before=(Positions, "write"))
    killable.commit_others(21)
    killable.batch()
    assert killable.rows == Counter({("a",): 3, ("b",): 1})


@both_formats
def test_a_foreign_commit_right_then_hides_no_batch(
    spark: SparkSession, target: str, using: Using, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others commit while the log is searched, before and after its last version is asked for."""
    killable = Killable(spark, target, using)
    killable.killed_batch(monkeypatch, before=(Positions, "write"))
    format_ = type(killable.table)
    version, marks = format_.version, format_.marks

    def among_others(table: LakeTable) -> int:
        monkeypatch.setattr(format_, "version", version)
        killable.commit_others(1)
        found = table.version()
        killable.commit_others(1)
        return found

    def searched(table: LakeTable, since: int) -> tuple[list[str], bool]:
        monkeypatch.setattr(format_, "version", among_others)
        return marks(table, since)

    monkeypatch.setattr(format_, "marks", searched)
    killable.batch()
    assert killable.rows == Counter({("a",): 3, ("b",): 1})


@both_formats
def test_a_batch_found_to_be_applied_is_not_in_doubt_again(
    spark: SparkSession, target: str, using: Using, monkeypatch: pytest.MonkeyPatch
) -> None:
    killable = Killable(spark, target, using)
    killable.killed_batch(monkeypatch, before=(Positions, "write"))
    for _ in range(2):
        killable.batch()
        killable.commit_others(2)
        killable.forget_commits()
    assert killable.rows == Counter({("a",): 3, ("b",): 1})


@both_formats
def test_a_batch_of_unknown_outcome_is_refused(
    spark: SparkSession, target: str, using: Using, monkeypatch: pytest.MonkeyPatch
) -> None:
    killable = Killable(spark, target, using)
    killable.killed_batch(monkeypatch, before=(Positions, "write"))
    killable.commit_others(2)
    killable.forget_commits()
    for _ in range(2):
        with pytest.raises(SetupError, match=r"ended while it wrote to .* at LSN 0/A, .*: fill the target"):
            killable.batch()
    assert killable.rows == Counter({("a",): 3, ("b",): 1})


@both_formats
def test_a_batch_that_was_not_applied_is_applied(
    spark: SparkSession, target: str, using: Using, monkeypatch: pytest.MonkeyPatch
) -> None:
    killable = Killable(spark, target, using)
    killable.killed_batch(monkeypatch, before=(targets, "apply_multiset"))
    killable.commit_others(2)
    killable.batch()
    assert killable.rows == Counter({("a",): 3, ("b",): 1})
    # A mirror that ended between two batches leaves no doubt.
    killable.commit_others(2)
    killable.forget_commits()
    killable.batch()
    assert killable.rows == Counter({("a",): 3, ("b",): 1})


def test_a_batch_that_two_drivers_apply_at_once_is_an_error(
    spark: SparkSession, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first paused between its note about the batch and its MERGE."""
    killable = Killable(spark, target, "iceberg")

    marking = LakeTable.marking

    def late(table: LakeTable, mark: str) -> AbstractContextManager[None]:
        monkeypatch.setattr(LakeTable, "marking", marking)
        killable.batch()
        return marking(table, mark)

    monkeypatch.setattr(LakeTable, "marking", late)
    with pytest.raises(
        SetupError, match=r"another mirror writes to .*, or rows without a key be added or deleted twice: end"
    ):
        killable.batch()


@both_formats
def test_of_two_drivers_that_announce_a_batch_at_once_the_first_writes_nothing(
    spark: SparkSession, target: str, using: Using, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the second's announcement stays."""
    killable = Killable(spark, target, using)
    keep = Positions._write_property

    def overwritten(ours: Positions, **more: Any) -> None:
        monkeypatch.setattr(Positions, "_write_property", keep)
        keep(ours, **more)
        theirs = copy(ours)
        theirs._writer = "another"
        keep(theirs, **more)

    monkeypatch.setattr(Positions, "_write_property", overwritten)
    with pytest.raises(PgrelayError, match=r"another mirror writes to .*: end one of the two"):
        killable.batch()
    assert killable.rows == Counter({("a",): 5})


def test_a_column_takes_few_calls_into_java(spark: SparkSession, target: str) -> None:
    def calls(columns: int) -> int:
        texts = [Column(f"c{number}", "text") for number in range(columns)]
        known = table("app.public.t", Column("id", "int4", encoding="integer"), *texts, identity="full")
        lake = lake_table(spark, f"{target}_{columns}", "iceberg")
        lake.create(Target(lake, known).table_type(known))
        changes = changes_of(spark, known, [change("u", 10, before={"id": 1}, after={"id": 2})])
        with counted_calls(spark) as counted:
            multiset_changes(lake, Batch(changes, known, AppliedPositions(known.topic)), strict=True)
        return counted.count

    assert calls(35) - calls(10) <= 25 * A_COLUMN
