"""Targets that somebody puts back to an earlier version, or replaces, and what is no such loss."""

import re
from collections import Counter
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import SetupError
from pgrelay.spark.lake import target as targets
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.positions import positions_table
from pgrelay.spark.lake.tables import LakeTable, Using
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableVersion
from tests.spark.handmade_records import Topic, change, rows, table
from tests.spark.lake.test_positions import ID, A, Driver

both_formats = pytest.mark.parametrize("using", ["delta", "iceberg"])


def put_back(table: LakeTable, version: int) -> None:
    table.spark.sql(table.restore_statement(version))


class Lake:
    """A table with a row for each commit."""

    def __init__(self, spark: SparkSession, target: str, using: Using) -> None:
        self.table: LakeTable = lake_table(spark, target, using)
        self.table.create(table("t", ID).row_type)
        self._rows = 0

    def commit(self) -> int:
        """The version that a row leads to."""
        self._rows += 1
        self.table.run(f"INSERT INTO {self.table.name} VALUES ({self._rows})")
        return self.table.version()

    def is_reverted(self, since: int) -> bool:
        return self.table.was_reverted(since)


@both_formats
def test_what_a_version_had_is_lost_only_if_the_table_is_put_back_further(
    spark: SparkSession, target: str, using: Using
) -> None:
    lake = Lake(spark, target, using)
    versions = [lake.commit() for _ in range(3)]
    assert [lake.is_reverted(version) for version in versions] == [False, False, False]
    put_back(lake.table, versions[1])
    assert [lake.is_reverted(version) for version in versions] == [False, False, True]
    later = lake.commit()
    assert [lake.is_reverted(version) for version in [*versions, later]] == [False, False, True, False]
    put_back(lake.table, versions[2])
    assert [lake.is_reverted(version) for version in [*versions, later]] == [False, False, False, True]


@both_formats
def test_a_replaced_table_has_lost_everything(spark: SparkSession, target: str, using: Using) -> None:
    lake = Lake(spark, target, using)
    version = lake.commit()
    lake.table.replace(table("t", ID).row_type, {})
    assert lake.is_reverted(version)
    later = lake.commit()
    assert (lake.is_reverted(version), lake.is_reverted(later)) == (True, False)


@pytest.mark.parametrize(("using", "restarted"), [("delta", True), ("iceberg", False)])
def test_a_target_that_was_put_back_is_refused_until_it_is_where_the_mirror_left_it(
    topic: Topic, target: str, using: Using, restarted: bool
) -> None:
    schema = table(topic.name, ID)
    topic.write(*(change("c", 10 * n, after={"id": n}) for n in (1, 2, 3)))
    driver = Driver(topic, target, using, schema)
    driver.apply(0, 1)
    first = driver.table.version()
    driver.apply(1, 2)
    left_at = driver.table.version()
    put_back(driver.table, first)
    message = (
        r"^app\.public\.t: .* was replaced or put back to an earlier version, and lacks .*, up to LSN 0/14: "
        rf"put it back, by (.* {left_at}\)?), or fill it again, with a new checkpoint, after pgrelay\.spark"
    )
    with pytest.raises(SetupError, match=message) as refused:
        (Driver(topic, target, using, schema) if restarted else driver).apply(2, 3)
    found = re.search(message, str(refused.value))
    assert found is not None
    topic.spark.sql(found[1])
    (Driver(topic, target, using, schema) if restarted else driver).apply(2, 3)
    assert rows(driver.table.rows()) == Counter([(1,), (2,), (3,)])


@both_formats
def test_what_others_do_to_a_target_is_no_loss(topic: Topic, target: str, using: Using) -> None:
    schema = table(topic.name, ID)
    topic.write(*(change("c", 10 * n, after={"id": n}) for n in (1, 2)))
    driver = Driver(topic, target, using, schema)
    driver.apply(0, 1)
    name = driver.table.name
    spark = topic.spark
    spark.sql(f"INSERT INTO {name} VALUES (7, 0, 0)")
    spark.sql(f"DELETE FROM {name} WHERE id = 7")
    spark.sql(f"COMMENT ON TABLE {name} IS 'a mirror'")
    pg.compact(spark, target, using=using)
    driver.apply(1, 2)
    assert rows(driver.table.rows()) == Counter([(1,), (2,)])


@both_formats
def test_a_mirror_killed_after_it_replaced_an_empty_target_goes_on(
    topic: Topic, target: str, using: Using, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column that can't become another is replaced, with all the table, where no row has it."""
    known = table(topic.name, ID, A)
    [first] = known.versions
    narrowed = TableVersion((15, 0), (ID, Column("a", "int4", encoding="integer")))
    later = replace(known, versions=(first, narrowed))
    topic.write(change("c", 10, after={"id": 1, "a": "x"}), change("d", 11, before={"id": 1}))
    topic.write(change("c", 20, after={"id": 2, "a": 2}))
    Driver(topic, target, using, known).apply(0, 2)
    with monkeypatch.context() as killed:
        killed.setattr(targets, "append_rows", lambda *_, **how: pytest.fail("killed"))
        killed.setattr(targets, "merge_rows", lambda *_, **how: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception, match="killed"):
            Driver(topic, target, using, later).apply(2, 3)
    driver = Driver(topic, target, using, later)
    driver.apply(2, 3)
    assert rows(driver.table.rows()) == Counter([(2, 2)])


@both_formats
def test_positions_of_an_earlier_release_know_no_version(topic: Topic, target: str, using: Using) -> None:
    schema = table(topic.name, ID)
    topic.write(*(change("c", 10 * n, after={"id": n}) for n in (1, 2)))
    Driver(topic, target, using, schema).apply(0, 1)
    driver = Driver(topic, target, using, schema)
    beside = positions_table(driver.table)
    kept = beside.properties()["pgrelay.applied"]
    beside.set_properties({"pgrelay.applied": kept.replace('"since"', '"other"')})
    Driver(topic, target, using, schema).apply(1, 2)
    assert rows(driver.table.rows()) == Counter([(1,), (2,)])
