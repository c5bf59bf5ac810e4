"""Targets that a query was filling, and that no longer exist."""

from collections.abc import Mapping

from pgrelay.errors import SetupError
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.tables import LakeTable, Using
from pgrelay.spark.mirrors.query import QuerySource
from pgrelay.spark.schemas.schema_topic import SchemaTopic


def filled_topics(
    source: QuerySource, schemas: SchemaTopic, tables: Mapping[str, str], using: Using
) -> frozenset[str]:
    """The topics whose rows a query has read. `tables` names a target for each topic.

    Raises SetupError if one of their targets does not exist: it would be created without those rows.
    """
    spark, checkpoint = source.session, source.checkpoint
    filled = set[str]()
    for topic in sorted(checkpoint.topics_read() & tables.keys()):
        table = lake_table(spark, tables[topic], using)
        if table.exists():
            filled.add(topic)
        # Without a schema no row was read: the offsets belong to transactions that Kafka aborted.
        elif schemas.read(spark, [topic]):
            raise SetupError(
                f"{topic}: {table.name} is not in the warehouse {_warehouse(table)}, but the checkpoint "
                f"{checkpoint.location} says that its records were read: name the warehouse that has it, and "
                f"its format (using={using!r}); or take a new checkpoint, to fill it again from what the "
                "topic still holds"
            )
    return frozenset(filled)


def _warehouse(table: LakeTable) -> str | None:
    catalog = table.name.split("`")[1]
    default = table.spark.conf.get("spark.sql.warehouse.dir", None)
    return table.spark.conf.get(f"spark.sql.catalog.{catalog}.warehouse", default)
