"""What a query's checkpoint says of the topics that it read already."""

import json
from collections.abc import Mapping

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from pgrelay.errors import SetupError
from pgrelay.spark.lake import LakeTable, Using, lake_table


def refuse_missing_targets(
    spark: SparkSession, checkpoint: str, tables: Mapping[str, str], using: Using
) -> None:
    """Raise SetupError where a topic was read from, and its target is not there.

    It would be made without what was read. `tables` names a target for each topic.
    """
    read = _Log(spark, checkpoint, "commits").last()
    if read is None:
        return
    ends = _Log(spark, checkpoint, "offsets").offsets(read)
    # Where the query began, retention or `startingOffsets` may have left nothing to read.
    begins = _Log(spark, checkpoint, "sources/0").offsets(0)
    for topic, target in tables.items():
        began = begins.get(topic, {})
        if all(offset <= began.get(partition, 0) for partition, offset in ends.get(topic, {}).items()):
            continue
        table = lake_table(spark, target, using)
        if not table.exists():
            raise SetupError(
                f"{topic}: {table.name} is not in the warehouse {_warehouse(table)}, and the checkpoint "
                f"{checkpoint} says that its records were read: name the warehouse that has it; or a new "
                "checkpoint, by which it is filled again from what the topic still holds"
            )


class _Log:
    """A folder of a checkpoint, with a file for each batch."""

    def __init__(self, spark: SparkSession, checkpoint: str, what: str) -> None:
        jvm = spark._jvm
        assert jvm is not None
        self._jvm = jvm
        self._folder: JavaObject = jvm.org.apache.hadoop.fs.Path(f"{checkpoint.rstrip('/')}/{what}")
        self._files = self._folder.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    def last(self) -> int | None:
        """The last batch's number; None where there is none."""
        if not self._files.exists(self._folder):
            return None
        names = [status.getPath().getName() for status in self._files.listStatus(self._folder)]
        return max((int(name) for name in names if name.isdecimal()), default=None)

    def offsets(self, batch: int) -> dict[str, dict[str, int]]:
        """A batch's offsets by topic and partition, which are the last line of its file."""
        path = self._jvm.org.apache.hadoop.fs.Path(self._folder, str(batch))
        if not self._files.exists(path):
            return {}
        stream = self._files.open(path)
        try:
            text: str = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        offsets: dict[str, dict[str, int]] = json.loads(text.rpartition("\n")[2])
        return offsets


def _warehouse(table: LakeTable) -> str | None:
    catalog = table.name.split("`")[1]
    default = table.spark.conf.get("spark.sql.warehouse.dir", None)
    return table.spark.conf.get(f"spark.sql.catalog.{catalog}.warehouse", default)
