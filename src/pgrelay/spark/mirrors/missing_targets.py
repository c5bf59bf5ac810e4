"""Targets that a query was filling, and that no longer exist."""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from pgrelay.errors import SetupError
from pgrelay.spark.lake.tables import LakeTable, Using, lake_table
from pgrelay.spark.mirrors.checkpoint import Checkpoint
from pgrelay.spark.schemas.schema_topic import SchemaTopic


def refuse_missing_targets(
    spark: SparkSession,
    checkpoint: Checkpoint,
    tables: Mapping[str, str],
    using: Using,
    schemas: SchemaTopic,
) -> None:
    """Raise SetupError if records of a topic were read, and its target does not exist.

    It would be created without those records. `tables` names a target for each topic.
    """
    read = checkpoint.last_commit()
    if read is None:
        return
    # Retention or `startingOffsets` may have left nothing to read at the query's begin.
    ends, begins = checkpoint.ends(read), checkpoint.begins()
    for topic, target in tables.items():
        began = begins.get(topic, {})
        if all(offset <= began.get(partition, 0) for partition, offset in ends.get(topic, {}).items()):
            continue
        table = lake_table(spark, target, using)
        # Without a schema no row was read: the offsets belong to transactions that Kafka aborted.
        if not table.exists() and schemas.read(spark, [topic]):
            raise SetupError(
                f"{topic}: {table.name} is not in the warehouse {_warehouse(table)}, but the checkpoint "
                f"{checkpoint.location} says that its records were read: name the warehouse that has it, and "
                f"its format (using={using!r}); or take a new checkpoint, to fill it again from what the "
                "topic still holds"
            )


def _warehouse(table: LakeTable) -> str | None:
    catalog = table.name.split("`")[1]
    default = table.spark.conf.get("spark.sql.warehouse.dir", None)
    return table.spark.conf.get(f"spark.sql.catalog.{catalog}.warehouse", default)
