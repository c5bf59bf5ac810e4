"""A mirror's micro-batches: versions of a schema inside one, and records that can't be read."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pgrelay import spark as pg
from pgrelay.errors import SetupError
from pgrelay.spark.lake.target import Target
from pgrelay.spark.mirrors.batches import Batches, Reading, Writing, split_by_version
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableSchema, TableVersion
from pgrelay.spark.schemas.schema_topic import SchemaTopic
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import Message, as_read, as_tuples, change, changes_of, rows
from tests.spark.jobs import counted_jobs

ID = Column("id", "int4", key=True, encoding="integer")
NAME = Column("name", "text")


@pytest.fixture
def target(prefix: str) -> str:
    return f"iceberg.lake.{prefix}"


def test_a_batch_without_readable_records_before_a_known_later_version(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    handmade.table("a", ID)
    handmade.table("a", ID, NAME, since=50)
    handmade.write("a", Message(b"garbage"))
    handmade.mirror({"a": target}, corrupt_to=f"{target}_corrupt")
    assert rows(spark.table(f"{target}_corrupt"), "offset") == {(0,): 1}
    handmade.write("a", change("c", 10, after={"id": 1}), change("c", 60, after={"id": 2, "name": "b"}))
    handmade.mirror({"a": target}, corrupt_to=f"{target}_corrupt")
    assert rows(spark.table(target), "id", "name") == {(1, None): 1, (2, "b"): 1}


def test_a_large_value_stays_when_partitions_reach_a_rename_at_different_times(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    n = Column("n", "int4", encoding="integer")
    handmade.table("a", ID, Column("big", "text"), n, partitions=2)
    handmade.table("a", ID, Column("large", "text"), n, since=50)
    handmade.write(
        "a",
        change("c", 10, after={"id": 1, "big": "x", "n": 1}),
        change("c", 60, after={"id": 3, "large": "z", "n": 1}),
        change("c", 11, after={"id": 2, "big": "y", "n": 1}, partition=1),
        change("u", 12, after={"id": 2, "big": "yy", "n": 1}, partition=1),
        change("u", 13, after={"id": 2, "n": 2}, unchanged=["big"], partition=1),
    )
    # One record of each at a time: the last is read when the target already has the name of LSN 50.
    handmade.mirror({"a": target}, options={"maxOffsetsPerTrigger": "2"})
    assert rows(spark.table(target), "id", "large", "n") == {(1, "x", 1): 1, (2, "yy", 2): 1, (3, "z", 1): 1}


def test_a_target_created_from_a_registrys_schema_follows_later_versions(
    spark: SparkSession, target: str
) -> None:
    title, extra = replace(NAME, name="title"), Column("extra", "text")
    columns = (ID, NAME), (ID, title), (ID, title, extra)
    known_versions = tuple(TableVersion((1 + 100 * at, 0), each) for at, each in enumerate(columns))
    schema = TableSchema("app.public.a", "public", "a", known_versions, "1")
    registered = replace(schema, versions=(replace(known_versions[1], position=(0, 0)),), systemid="")
    written = [change("c", 110, after={"id": 1, "title": "a"})]
    pg.apply_changes(changes_of(spark, registered, written), target, schema=registered, using="iceberg")
    written.append(change("u", 120, after={"id": 1, "title": "b"}))
    written.append(change("c", 210, after={"id": 2, "title": "c", "extra": "x"}))
    batches = Batches(SchemaTopic("", "app"), Reading(), Writing({schema.topic: target}, "iceberg"))
    batches.apply_topics(as_read(spark, schema.topic, written), {schema.topic: schema})
    found = rows(spark.table(target), "id", "title", "extra")
    assert found == {(1, "b", None): 1, (2, "c", "x"): 1}


def test_no_table_begins_after_one_has_failed(spark: SparkSession, target: str) -> None:
    topics = ["app.public.a", "app.public.b"]
    read = [as_read(spark, topic, [change("c", 10, after={"id": 1})]) for topic in topics]
    writing = Writing({topic: f"{target}_{topic[-1]}" for topic in topics}, "iceberg")
    only_b = {topics[1]: TableSchema(topics[1], "public", "b", (TableVersion((1, 0), (ID,)),), "1")}
    message = r"^app\.public\.a: the schema topic has no schema .*: restart .*startingOffsets"
    with pytest.raises(SetupError, match=message):
        Batches(SchemaTopic("", "app"), Reading(), writing).apply_topics(read[0].union(read[1]), only_b, 1)
    assert not spark.catalog.tableExists(f"{target}_b")


def test_each_record_is_read_with_one_version(spark: SparkSession) -> None:
    versions = tuple(TableVersion((lsn, 0), (ID,) if lsn < 50 else (ID, NAME)) for lsn in (1, 50, 90))
    placed = as_tuples(spark, [(10, 0), (50, 0), (60, 1), (None, None)], "commit_lsn long, seq long")
    parts = split_by_version(placed, TableSchema("app.public.a", "public", "a", versions), (1, 0))
    found = [
        (schema.latest.position[0], [row.commit_lsn for row in part.collect()]) for schema, part in parts
    ]
    assert found == [(1, [10, None]), (50, [50, 60])]


def test_whole_transactions_are_not_split_at_a_column_change(
    spark: SparkSession,
) -> None:
    schema = TableSchema(
        "app.public.a", "public", "a", (TableVersion((1, 0), (ID,)), TableVersion((50, 2), (ID, NAME)))
    )
    placed = as_tuples(spark, [(10, 5), (50, 1), (50, 2)], "commit_lsn long, seq long")

    def found(schema: TableSchema, whole: bool) -> list[tuple[int, int]]:
        parts = split_by_version(placed, schema, (1, 0), whole=whole)
        return [(known.latest.position[0], part.count()) for known, part in parts]

    split = [(1, 2), (50, 1)]
    assert (found(schema, False), found(schema, True)) == (split, [(1, 1), (50, 2)])
    # A delete has only the key at that time.
    keyed = TableVersion((50, 2), (replace(ID, key=False), replace(NAME, key=True)))
    assert found(replace(schema, versions=(schema.versions[0], keyed)), True) == split


def test_a_topic_of_several_tables_is_refused(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    topic = handmade.table("orders", ID, called="orders_2024", relation=1)
    handmade.table("orders", ID, called="orders_2025", relation=2, since=50)
    handmade.write("orders", change("c", 10, after={"id": 1}), change("t", 60))
    refused = rf"{topic} has the rows of public.orders_2024, public.orders_2025, .* a topic of its own"
    with pytest.raises(Exception, match=refused):
        handmade.mirror({"orders": target})
    assert not spark.catalog.tableExists(target)


def test_rows_of_two_clusters_are_refused_until_a_query_starts_after_the_first(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    topic = handmade.table("a", ID, since=1)
    handmade.table("a", ID, since=2, systemid="2")
    handmade.table("a", ID, since=3, systemid="1")  # the first one is back
    handmade.write("a", change("c", 500, after={"id": 1}), change("c", 10, after={"id": 2}))
    refused = r"GapError: .* of Postgres clusters 1, 2, .*take a new checkpoint.* the rows of 1 begin"
    with pytest.raises(Exception, match=refused):
        handmade.mirror({"a": target})
    behind = {"startingOffsets": json.dumps({topic: {"0": 1}})}
    with pytest.raises(Exception, match="GapError: "):  # Spark uses it only for a new checkpoint
        handmade.mirror({"a": target}, options=behind)
    handmade.mirror({"a": target}, options=behind, checkpoint="new")
    assert rows(spark.table(target), "id") == {(2,): 1}


def around_each_topic(
    monkeypatch: pytest.MonkeyPatch, noting: Callable[[str, Callable[[], None]], None]
) -> None:
    """Calls `noting`, with the topic, instead of what a batch does for one topic, which it has to call."""
    for name in ("apply_topic", "create_target"):
        step = getattr(Batches, name)

        def noted(self: Batches, records: DataFrame, schema: TableSchema, step: Any = step) -> None:
            noting(schema.topic, lambda: step(self, records, schema))

        monkeypatch.setattr(Batches, name, noted)


def test_tables_are_applied_in_the_querys_jobs_and_idle_ones_once(
    spark: SparkSession, handmade: HandmadeRelay, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Counter[tuple[str, str | None]]()

    def noting(topic: str, apply: Callable[[], None]) -> None:
        seen[topic, spark.sparkContext.getLocalProperty("spark.jobGroup.id")] += 1
        apply()

    around_each_topic(monkeypatch, noting)
    busy, idle = handmade.table("busy", ID), handmade.table("idle", ID)
    handmade.write("busy", change("c", 10, after={"id": 1}), change("c", 20, after={"id": 2}))
    names = {"busy": f"{target}_busy", "idle": f"{target}_idle"}
    query = handmade.mirror(names, options={"maxOffsetsPerTrigger": "1"})
    run = str(query.runId)
    assert seen == {(busy, run): 2, (idle, run): 1}
    assert [spark.table(name).count() for name in names.values()] == [2, 0]


def test_a_table_takes_no_tasks_for_the_records_of_others(
    spark: SparkSession, handmade: HandmadeRelay, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark has a partition for each of Kafka's, and would start a task for each of them, for each table."""
    partitions = dict[str, int]()
    apply = Batches._apply_versions

    def noting(self: Batches, records: DataFrame, schema: TableSchema, target: Target) -> None:
        partitions[schema.topic] = records.rdd.getNumPartitions()
        apply(self, records, schema, target)

    monkeypatch.setattr(Batches, "_apply_versions", noting)
    one, two = handmade.table("one", ID), handmade.table("two", ID, partitions=2)
    more = [handmade.table(f"more{number}", ID) for number in range(4)]
    handmade.write("one", change("c", 10, after={"id": 1}))
    handmade.write("two", *(change("c", 10 + n, after={"id": n}, partition=n) for n in range(2)))
    names = {topic.rpartition(".")[2]: f"{target}_{number}" for number, topic in enumerate([one, two, *more])}
    handmade.mirror(names)
    assert partitions == {one: 1, two: 2} | dict.fromkeys(more, 0)
    assert [spark.table(name).count() for name in names.values()] == [1, 2, 0, 0, 0, 0]


def test_idle_tables_cost_a_mirror_that_goes_on_no_job(
    spark: SparkSession, handmade: HandmadeRelay, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = dict[str, int]()

    def noting(topic: str, apply: Callable[[], None]) -> None:
        with counted_jobs(spark) as counted:
            apply()
        jobs[topic] = counted.count

    busy, idle, new = (handmade.table(name, ID) for name in ("busy", "idle", "new"))
    silent = handmade.topic("silent")  # a table that never had a row
    names = {
        topic.rpartition(".")[2]: f"{target}_{number}" for number, topic in enumerate([busy, idle, silent])
    }
    for name in ("busy", "idle"):
        handmade.write(name, change("c", 10, after={"id": 1}))
    handmade.mirror(names)
    handmade.write("busy", change("c", 20, after={"id": 2}))
    around_each_topic(monkeypatch, noting)
    handmade.mirror({**names, "new": f"{target}_new"})
    assert jobs.pop(busy) > 0
    assert jobs.keys() == {idle, new}  # the silent one is not even looked at
    assert jobs[idle] == 0
    assert [spark.table(f"{target}_{name}").count() for name in (0, 1, "new")] == [2, 1, 0]
