"""Tables without a key, by calls of one's own: a batch may have what several identities told."""

from collections import Counter
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import RecordError
from pgrelay.spark.lake.positions import SUFFIX
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableVersion
from tests.spark.handmade_records import change, changes_of, rows, table


def test_rows_that_come_again_while_the_identity_is_full_are_applied_after_it_was(
    spark: SparkSession, target: str
) -> None:
    """As docs/spark.md lets rows come that were there before."""
    known = table("app.public.t", Column("name", "text"))
    [first] = known.versions
    told = [
        TableVersion((lsn, 0), first.columns, identity) for lsn, identity in ((20, "full"), (30, "default"))
    ]
    a, b = {"name": "a"}, {"name": "b"}
    written = [change("c", 10, after=a), change("u", 21, before=b, after=b), change("c", 31, after=a)]
    with pytest.raises(
        RecordError, match=r"offset 1: op 'u' of .*, or where it was that, read table_schemas"
    ):
        pg.apply_changes(changes_of(spark, known, written), target, schema=known, using="iceberg")
    known = replace(known, versions=(first, *told))
    for _ in range(2):
        changes = changes_of(spark, known, written)
        pg.apply_changes(changes, target, schema=known, using="iceberg", on_missing="null")
    assert rows(spark.table(f"iceberg.{target}")) == Counter({("a",): 2, ("b",): 1})


def test_what_somebody_marks_commits_with_stays_and_is_no_position(spark: SparkSession, target: str) -> None:
    known = table("app.public.t", Column("name", "text"), identity="full")
    written = [change("c", 10, after={"name": "a"}), change("c", 11, after={"name": "a"})]
    setting = "spark.databricks.delta.commitInfo.userMetadata"
    try:
        for mark in ("nightly", "[1]"):
            spark.conf.set(setting, mark)
            pg.apply_changes(changes_of(spark, known, written), target, schema=known)
            assert spark.conf.get(setting) == mark
            spark.sql(f"COMMENT ON TABLE {target} IS 'a commit of somebody else'")
            # As of a mirror that was killed behind its commit.
            spark.sql(f"DROP TABLE IF EXISTS {target}{SUFFIX}")
    finally:
        spark.conf.unset(setting)
    pg.apply_changes(changes_of(spark, known, written), target, schema=known)
    assert rows(spark.table(target)) == Counter({("a",): 2})
