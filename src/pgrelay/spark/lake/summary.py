"""What has to be known about a batch before it is applied, found in one pass over it."""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pgrelay.spark.lake.applied import Applied
from pgrelay.spark.lake.latest import key_moved, key_untold
from pgrelay.spark.lake.lost_values import lacks
from pgrelay.spark.schemas.schema import TableSchema


@dataclass
class Summary:
    """Facts about a batch's changes of one table. `corrupt` and `untold` are each the first such record."""

    leads_to: Applied  # what is applied of these partitions once the batch is
    lowest: int | None = None  # commit LSN
    unchanged: bool = False  # a change leaves out a large value that stays
    moved: bool = False  # `key_moved` holds for a change
    corrupt: tuple[int, int, str] | None = None  # partition, offset, reason
    lacking: bool = False  # `lacks` holds for a change: so `unchanged` does too
    replaced: bool = False  # there are updates or deletes
    untold: tuple[int, int, str] | None = None  # partition, offset, op: `key_untold` holds for it
    foreign: str | None = None  # another topic than the schema's


def summarize(changes: DataFrame, schema: TableSchema) -> Summary:
    """Look at all changes; only the first bad records of each partition leave Spark."""
    position = F.struct("commit_lsn", "seq")
    sound = F.col("corrupt").isNull()
    unchanged = F.size("unchanged") > 0
    rows = (
        changes.groupBy("topic", "partition")
        .agg(
            F.max(F.when(sound, position)).alias("highest"),
            F.min(F.when(sound, F.col("commit_lsn"))).alias("lowest"),
            F.max(F.when(sound & (F.col("op") == "t"), position)).alias("truncated"),
            F.max(unchanged).alias("unchanged"),
            F.max(sound & key_moved(schema)).alias("moved"),
            F.min(F.when(~sound, F.struct("offset", "corrupt"))).alias("corrupt"),
            F.max(sound & lacks(schema)).alias("lacking"),
            F.max(sound & F.col("op").isin("u", "d")).alias("replaced"),
            F.min(F.when(sound & key_untold(schema), F.struct("offset", "op"))).alias("untold"),
        )
        .collect()
    )
    summary = Summary(Applied(schema.topic))
    for row in rows:
        if row["topic"] != schema.topic:
            summary.foreign = row["topic"]
        if row["highest"] is not None:
            summary.leads_to.advance(row["partition"], tuple(row["highest"]))
            summary.lowest = row["lowest"] if summary.lowest is None else min(row["lowest"], summary.lowest)
        if row["truncated"] is not None:
            summary.leads_to.truncate(tuple(row["truncated"]))
        summary.unchanged |= row["unchanged"]
        summary.moved |= bool(row["moved"])
        summary.lacking |= bool(row["lacking"])
        summary.replaced |= bool(row["replaced"])
        if row["corrupt"] is not None and summary.corrupt is None:
            summary.corrupt = (row["partition"], *row["corrupt"])
        if row["untold"] is not None and summary.untold is None:
            summary.untold = (row["partition"], *row["untold"])
    return summary
