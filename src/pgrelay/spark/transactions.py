"""Where transactions end, by the transaction topic, and how far records of them are complete."""

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pgrelay.spark.avro_records import decode, schema_id
from pgrelay.spark.registry import Registry
from pgrelay.spark.values import JSON_OPTIONS

_BOUNDARY: Final = (
    "status string, commit_lsn bigint,"
    " data_collections array<struct<data_collection: string, event_count: bigint>>"
)
_POSITION: Final = (
    "source struct<commit_lsn: bigint, seq: bigint>, __commit_lsn bigint, __seq bigint, commit_lsn bigint"
)

RAW: Final = ("topic", "partition", "offset", "key", "value")


def with_positions(records: DataFrame, registry: Registry | None, boundaries: str) -> DataFrame:
    """The records with `commit_lsn` and `seq`, both null of tombstones and of what can't be read.

    `boundaries` is the transaction topic, whose records have a `commit_lsn` and no `seq`.
    """
    parsed = _parsed(records, registry, _POSITION)
    # The flat envelope's first: a column of the row may be named `source`, or `commit_lsn`.
    lsn = F.coalesce(F.col("parsed.__commit_lsn"), F.col("parsed.source.commit_lsn"))
    seq = F.coalesce(F.col("parsed.__seq"), F.col("parsed.source.seq"))
    ended = F.when(F.col("topic") == boundaries, F.col("parsed.commit_lsn"))
    return parsed.select(*RAW, F.coalesce(ended, lsn).alias("commit_lsn"), seq.alias("seq"))


def ends(boundaries: DataFrame, registry: Registry | None) -> DataFrame:
    """The ends of transactions: commit_lsn, and data_collections with the number of each one's events."""
    parsed = _parsed(boundaries, registry, _BOUNDARY)
    end = F.col("parsed.status") == "END"
    return parsed.where(end).select("parsed.commit_lsn", "parsed.data_collections").distinct()


def complete_until(records: DataFrame, ended: DataFrame, tables: dict[str, str], since: int) -> int:
    """The highest commit LSN up to which every transaction is whole; `since` where there is none above it.

    `records` have topic, commit_lsn and seq; `tables` names the topic of each schema.table that is mirrored.
    """
    later = ended.where(F.col("commit_lsn") > since)
    pairs = F.create_map(*(F.lit(part) for pair in tables.items() for part in pair))
    named = pairs.cast("map<string, string>")  # of no pairs, too
    told = later.select("commit_lsn", F.explode_outer("data_collections").alias("told")).select(
        "commit_lsn",
        F.try_element_at(named, F.col("told.data_collection")).alias("topic"),
        F.col("told.event_count").alias("events"),
    )
    ours = told.where("topic IS NOT NULL").groupBy("commit_lsn", "topic")
    expected = ours.agg(F.sum("events").alias("events"))
    here = (
        records.where(F.col("commit_lsn") > since)
        .groupBy("commit_lsn", "topic")
        .agg(F.count_distinct("seq").alias("here"))
    )
    lacking = expected.join(here, ["commit_lsn", "topic"], "left").where(
        F.coalesce(F.col("here"), F.lit(0)) < F.col("events")
    )
    [first] = lacking.agg(F.min("commit_lsn")).first() or [None]
    whole = later if first is None else later.where(F.col("commit_lsn") < first)
    [last] = whole.agg(F.max("commit_lsn")).first() or [None]
    return since if last is None else int(last)


def _parsed(records: DataFrame, registry: Registry | None, shape: str) -> DataFrame:
    """The records, and in `parsed` what there is of a shape."""
    text = F.col("value").cast("string")
    if registry is None:
        return records.select(*RAW, F.from_json(text, shape, JSON_OPTIONS).alias("parsed"))
    with_id = records.withColumn("id", schema_id(F.col("value")))
    ids = [row["id"] for row in with_id.where("id IS NOT NULL").select("id").distinct().collect()]
    body = F.expr("substring(value, 6)")
    names = [f"decoded_{number}" for number in ids]
    decoders = [
        F.when(F.col("id") == number, decode(body, text)).alias(f"decoded_{number}")
        for number, text in registry.of_ids(ids).items()
    ]
    decoded = with_id.select(*RAW, *decoders)
    return decoded.select(*RAW, _shaped(names, shape).alias("parsed"))


def _shaped(names: list[str], shape: str) -> Expression:
    """What decoded values have of the shape: one of them is there, the others are null."""
    nothing = F.from_json(F.lit(None).cast("string"), shape)
    return F.coalesce(nothing, *(F.from_json(F.to_json(name), shape) for name in names))
