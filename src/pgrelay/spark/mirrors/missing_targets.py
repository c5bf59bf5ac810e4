"""Targets that a query was filling, and that no longer exist."""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from pgrelay.errors import SetupError
from pgrelay.spark.lake.tables import LakeTable, Using, lake_table
from pgrelay.spark.mirrors.checkpoint import Checkpoint
from pgrelay.spark.schemas.schema_topic import SchemaTopic


class FilledTargets:
    """The targets of topics whose records a query has read. A missing one would be created without those."""

    def __init__(
        self, spark: SparkSession, checkpoint: Checkpoint, tables: Mapping[str, str], using: Using
    ) -> None:
        """`tables` names a target for each topic."""
        self._spark = spark
        self._checkpoint = checkpoint
        self._filled = {
            topic: lake_table(spark, tables[topic], using)
            for topic in checkpoint.taken_so_far() & tables.keys()
        }

    def refuse_missing(self, schemas: SchemaTopic) -> None:
        """At the start: raise SetupError if one does not exist, and forget those of which no row was read."""
        for topic, table in list(self._filled.items()):
            if table.exists():
                continue
            # Without a schema no row was read: the offsets belong to transactions that Kafka aborted.
            if schemas.read(self._spark, [topic]):
                raise SetupError(
                    f"{topic}: {table.name} is not in the warehouse {_warehouse(table)}, but the checkpoint "
                    f"{self._checkpoint.location} says that its records were read: name the warehouse that "
                    f"has it, and its format (using={table.using!r}); or take a new checkpoint, to fill it "
                    "again from what the topic still holds"
                )
            del self._filled[topic]

    def refuse_dropped(self) -> None:
        """Raise SetupError if one that existed at the start no longer does.

        Only the first call looks, that of the first batch, which may come long after. From then on, a
        target's positions tell.
        """
        for topic, table in self._filled.items():
            if not table.exists():
                raise SetupError(
                    f"{topic}: {table.name} was dropped since the mirror started: take a new checkpoint, to "
                    "fill it again from what the topic still holds"
                )
        self._filled.clear()


def _warehouse(table: LakeTable) -> str | None:
    catalog = table.name.split("`")[1]
    default = table.spark.conf.get("spark.sql.warehouse.dir", None)
    return table.spark.conf.get(f"spark.sql.catalog.{catalog}.warehouse", default)
