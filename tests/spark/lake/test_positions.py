"""What a target tells of itself: whose rows it has, and as of which schema."""

from collections import Counter
from dataclasses import replace

import pytest

from pgrelay import spark as pg
from pgrelay.errors import GapError
from pgrelay.spark.lake.positions import birth_properties
from pgrelay.spark.lake.tables import lake_table
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableSchema, TableVersion
from tests.spark.handmade_records import Topic, change, rows, table

ID = Column("id", "int4", key=True, encoding="integer")
A = Column("a", "text")


def untold(schema: TableSchema) -> TableSchema:
    """The last version as a schema registry tells it: without a cluster and without an LSN."""
    return replace(schema, versions=(replace(schema.latest, position=(0, 0)),), systemid="")


@pytest.mark.parametrize("registry_first", [True, False])
def test_a_cluster_that_is_not_known_is_no_other_one(topic: Topic, target: str, registry_first: bool) -> None:
    of_topic = table(topic.name, ID, systemid="1")
    schemas = [untold(of_topic), of_topic, untold(of_topic)][0 if registry_first else 1 :]
    for number, schema in enumerate(schemas):
        topic.write(change("c", 10 + number, after={"id": number}))
        changes = topic.changes(schema).where(f"offset = {number}")
        pg.apply_changes(changes, target, schema=schema, using="iceberg")
    lake = lake_table(topic.spark, target, "iceberg")
    assert rows(lake.rows()) == {(number,): 1 for number in range(len(schemas))}
    # And one that is known is remembered.
    other = table(topic.name, ID, systemid="2")
    with pytest.raises(GapError, match=r"written by Postgres cluster 2, but .* holds rows of cluster 1"):
        pg.apply_changes(topic.changes(other), target, schema=other, using="iceberg")


def test_a_cluster_is_remembered_where_the_schema_stays(topic: Topic, target: str) -> None:
    """As of Postgres's own catalogue, which knows the cluster, and no LSN either."""
    registered = untold(table(topic.name, ID))
    for lsn, schema in enumerate([registered, replace(registered, systemid="1")], 10):
        topic.write(change("c", lsn, after={"id": lsn}))
        pg.apply_changes(topic.changes(schema), target, schema=schema, using="iceberg")
    told = lake_table(topic.spark, target, "iceberg").properties()
    assert birth_properties(replace(registered, systemid="1")).items() <= told.items()


def test_a_column_that_came_again_before_the_target_was_made_keeps_its_values(
    topic: Topic, target: str
) -> None:
    versions = [TableVersion((1 + 100 * n, 0), each) for n, each in enumerate([(ID, A), (ID,), (ID, A)])]
    told = TableSchema(topic.name, "public", "t", tuple(versions), "1")
    topic.write(change("c", 210, after={"id": 1, "a": "x"}), change("c", 211, after={"id": 2, "a": "y"}))
    for number, schema in enumerate([untold(told), told]):
        changes = topic.changes(schema).where(f"offset = {number}")
        pg.apply_changes(changes, target, schema=schema, using="iceberg")
    assert rows(lake_table(topic.spark, target, "iceberg").rows()) == Counter([(1, "x"), (2, "y")])
