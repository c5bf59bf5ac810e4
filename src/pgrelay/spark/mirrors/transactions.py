"""Where transactions end, by the transaction topic, and up to which commit their records are complete."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, LongType, StringType, StructType

from pgrelay.encode.topics import shorten
from pgrelay.spark.mirrors.checkpoint import Offsets
from pgrelay.spark.records.avro_records import READING, schema_id
from pgrelay.spark.records.sql import JSON_OPTIONS
from pgrelay.spark.schemas.avro_schemas import members, row_of
from pgrelay.spark.schemas.registry import Registry

_LONG: Final = LongType()
_POSITION: Final = (
    StructType()
    .add("source", StructType().add("commit_lsn", _LONG).add("seq", _LONG).add("ts_us", _LONG))
    .add("__commit_lsn", _LONG)
    .add("__seq", _LONG)
    .add("__ts_ms", _LONG)
)
_COUNT: Final = StructType().add("data_collection", StringType()).add("event_count", _LONG)
_BOUNDARY: Final = (
    StructType()
    .add("status", StringType())
    .add("commit_lsn", _LONG)
    .add("ts_ms", _LONG)
    .add("data_collections", ArrayType(_COUNT))
)
_OF_BOUNDARY: Final = set(_BOUNDARY.names)
T = TypeVar("T")

# What `with_positions` returns.
POSITIONED: Final = (
    StructType()
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", _LONG)
    .add("key", BinaryType())
    .add("value", BinaryType())
    .add("commit_lsn", _LONG)
    .add("seq", _LONG)
    .add("ts_ms", _LONG)
    .add("boundary", _BOUNDARY)
)

_RAW: Final = ("topic", "partition", "offset", "key", "value")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A commit that has fewer events in a topic (`here`) than its transaction's end says (`events`)."""

    commit_lsn: int
    topic: str
    here: int
    events: int


@dataclass(frozen=True, slots=True)
class Reach:
    """How far transactions are whole, and what they wait for after that.

    until    the last commit LSN up to which all transactions are whole
    waiting  the first commit that waits for records, once for each topic that lacks some
    lost     commits up to `until` that can't be whole any more: the last one of each topic
    """

    until: int
    waiting: tuple[Waiting, ...] = ()
    lost: tuple[Waiting, ...] = ()


@dataclass(frozen=True, slots=True)
class Rest:
    """The records after the last whole transaction.

    rows        the number of tables' records
    new         whether any record came in this batch
    oldest_s    the oldest commit time, in seconds since 1970; None if there are no records
    first       the first row's commit LSN and topic; None if there are no rows
    boundaries  the number of records of the transaction topic, and of `ends` among them
    unread      partition and offset of the first record of that topic that can't be read; None if all can
    """

    rows: int = 0
    new: bool = False
    oldest_s: float | None = None
    first: tuple[int, str] | None = None
    boundaries: int = 0
    ends: int = 0
    unread: tuple[int, int] | None = None

    @property
    def untold(self) -> tuple[int, str] | None:
        """The first row, if no record of the transaction topic is there."""
        return None if self.boundaries else self.first

    def and_later(self, later: "Rest") -> "Rest":
        """The summary of these records and of those that came since, of which `later` is one."""
        return Rest(
            self.rows + later.rows,
            later.new,
            _least(self.oldest_s, later.oldest_s),
            _least(self.first, later.first),
            self.boundaries + later.boundaries,
            self.ends + later.ends,
            later.unread,
        )


def _least(one: T | None, other: T | None) -> T | None:
    return min((each for each in (one, other) if each is not None), default=None)  # type: ignore[type-var]


def transaction_topic(prefix: str) -> str:
    """The topic to which a relay writes the begins and ends of transactions."""
    return shorten(f"{prefix}.transaction")


def with_positions(records: DataFrame, registry: Registry | None, boundaries: str) -> DataFrame:
    """The records as POSITIONED; `commit_lsn` and `seq` are null if the record can't be read.

    `ts_ms` is the commit time, in milliseconds since 1970. `boundaries` is the transaction topic; its records
    have a `commit_lsn`, no `seq`, and their content in `boundary`.
    """
    parsed = _of_json(records, boundaries) if registry is None else _of_avro(records, registry, boundaries)
    # The flat envelope's fields come first: a column of its row may be named `source`.
    lsn = F.coalesce("change.__commit_lsn", "change.source.commit_lsn", "boundary.commit_lsn")
    seq = F.coalesce("change.__seq", "change.source.seq")
    ts = F.coalesce("change.__ts_ms", F.expr("change.source.ts_us div 1000"), "boundary.ts_ms")
    return parsed.select(*_RAW, lsn.alias("commit_lsn"), seq.alias("seq"), ts.alias("ts_ms"), "boundary")


def read_past(records: DataFrame, ends: Offsets) -> dict[str, int]:
    """For each topic, the commit LSN below which no record can come: all its partitions are read that far.

    Positions only rise within a partition. `ends` names the existing partitions.
    """
    placed = records.where("seq IS NOT NULL").groupBy("topic", "partition")
    reached: dict[str, dict[int, int]] = {}
    for row in placed.agg(F.max("commit_lsn").alias("lsn")).collect():
        reached.setdefault(row["topic"], {})[row["partition"]] = row["lsn"]
    return {
        topic: min(lsns.values())
        for topic, lsns in reached.items()
        if lsns.keys() >= ends.get(topic, {}).keys()
    }


def reach(records: DataFrame, tables: Mapping[str, str], since: int, past: Mapping[str, int]) -> Reach:
    """Up to which commit LSN every transaction is whole; `since` if none is above it.

    `records` have topic, offset, commit_lsn, seq and boundary, and may be duplicated; `tables` gives the
    topic of each mirrored schema.table; `past` is the result of `read_past`. Nothing waits for events that
    can't come: those below `past`, and those of a transaction whose begin was not read.
    """
    later = records.where(F.col("commit_lsn") > since)
    boundaries = later.where("boundary IS NOT NULL").select("boundary.*", "offset")
    ended = boundaries.where("status = 'END'")
    begun = boundaries.where("status = 'BEGIN'").select("commit_lsn", F.lit(True).alias("begun")).distinct()
    lacking = _lacking(later, ended, tables).join(begun, "commit_lsn", "left").na.fill(False, ["begun"])
    gone = F.coalesce(
        F.col("commit_lsn") < F.try_element_at(_map(past, "bigint"), F.col("topic")), F.lit(False)
    )
    waits = F.col("begun") & ~gone
    what = F.struct("commit_lsn", "topic", "here", "events")
    found = (
        lacking.groupBy("topic")
        .agg(F.min(F.when(waits, what)).alias("first"), F.max(F.when(~waits, what)).alias("lost"))
        .collect()
    )
    first = [Waiting(*row["first"]) for row in found if row["first"] is not None]
    stop = min((each.commit_lsn for each in first), default=None)
    whole = ended if stop is None else ended.where(F.col("commit_lsn") < stop)
    [last] = whole.agg(F.max("commit_lsn")).first() or [None]
    until = since if last is None else int(last)
    lost = [Waiting(*row["lost"]) for row in found if row["lost"] is not None]
    return Reach(
        until,
        tuple(each for each in first if each.commit_lsn == stop),
        tuple(each for each in lost if each.commit_lsn <= until),
    )


def rest_of(records: DataFrame, until: int, boundaries: str) -> Rest:
    """A summary of the records after an LSN. They are those of `reach`, with `ts_ms` and `is_new`.

    `boundaries` is the transaction topic.
    """
    is_boundary = F.col("topic") == boundaries
    is_unread = is_boundary & F.col("commit_lsn").isNull()
    later = records.where((F.col("commit_lsn") > until) | is_unread)
    told = later.agg(
        F.count("seq").alias("rows"),
        F.max(F.when(~is_unread, F.col("is_new"))).alias("new"),
        F.min("ts_ms").alias("oldest_ms"),
        F.min(F.when(F.col("seq").isNotNull(), F.struct("commit_lsn", "topic"))).alias("first"),
        F.count_if(is_boundary & ~is_unread).alias("boundaries"),
        F.count_if(F.col("boundary.status") == "END").alias("ends"),
        F.min(F.when(is_unread, F.struct("partition", "offset"))).alias("unread"),
    ).collect()[0]
    return Rest(
        told["rows"],
        bool(told["new"]),
        None if told["oldest_ms"] is None else told["oldest_ms"] / 1000,
        None if told["first"] is None else tuple(told["first"]),
        told["boundaries"],
        told["ends"],
        None if told["unread"] is None else tuple(told["unread"]),
    )


def _lacking(records: DataFrame, ended: DataFrame, tables: Mapping[str, str]) -> DataFrame:
    """The commits that lack events: commit_lsn, topic, events, and how many are here."""
    # A repeated end may count fewer events, as a record became a dead letter or a table was left out: the
    # last end counts. The transaction topic has one partition.
    last = ended.groupBy("commit_lsn").agg(F.max_by("data_collections", "offset").alias("counts"))
    told = last.select("commit_lsn", F.explode("counts").alias("told")).select(
        "commit_lsn",
        F.try_element_at(_map(tables, "string"), F.col("told.data_collection")).alias("topic"),
        F.col("told.event_count").alias("events"),
    )
    expected = told.where("topic IS NOT NULL")
    here = records.groupBy("commit_lsn", "topic").agg(F.count_distinct("seq").alias("here"))
    counted = expected.join(here, ["commit_lsn", "topic"], "left").na.fill(0, ["here"])
    return counted.where("here < events")


def _map(pairs: Mapping[str, Any], of: str) -> Expression:
    parts = F.create_map(*(F.lit(part) for pair in pairs.items() for part in pair))
    return parts.cast(f"map<string, {of}>")  # an empty map needs its type, too


def _of_json(records: DataFrame, boundaries: str) -> DataFrame:
    """The records, with `change` or `boundary`."""
    return _by_topic(records, boundaries, _read_json)


def _of_avro(records: DataFrame, registry: Registry, boundaries: str) -> DataFrame:
    """The same, decoding only the fields needed. A value without an id is JSON, from before Avro."""
    with_id = records.withColumn("id", schema_id(F.col("value")))
    ids = [row["id"] for row in with_id.where("id IS NOT NULL").select("id").distinct().collect()]
    body = F.expr("substring(value, 6)")
    values = [
        F.when(F.col("id") == number, value).alias(f"v_{number}")
        for number, text in registry.of_ids(ids).items()
        if (value := _decoded(body, text)) is not None
    ]
    decoded = with_id.select(*_RAW, "id", *values)

    def read(shape: StructType) -> Expression:
        return F.when(F.col("id").isNull(), _read_json(shape)).otherwise(_shaped(decoded, shape))

    return _by_topic(decoded, boundaries, read)


def _by_topic(records: DataFrame, boundaries: str, read: Callable[[StructType], Expression]) -> DataFrame:
    bounds = F.col("topic") == boundaries
    return records.select(
        *_RAW,
        F.when(~bounds, read(_POSITION)).alias("change"),
        F.when(bounds, read(_BOUNDARY)).alias("boundary"),
    )


def _read_json(shape: StructType) -> Expression:
    return F.from_json(F.col("value").cast("string"), shape, JSON_OPTIONS)


def _shaped(decoded: DataFrame, shape: StructType) -> Expression:
    """The fields of a shape, from the value decoded by whichever schema it was written under."""
    values = [(each.name, each.dataType) for each in decoded.schema if isinstance(each.dataType, StructType)]
    fields = []
    for field in shape:
        having = [name for name, kind in values if field.name in kind.names]
        found = (F.col(name).getField(field.name).cast(field.dataType) for name in having)
        fields.append(F.coalesce(F.lit(None).cast(field.dataType), *found).alias(field.name))
    return F.struct(*fields)


def _decoded(body: Expression, text: str) -> Expression | None:
    """The fields of both shapes, from a value written under a schema; all null if its bytes are invalid.

    None if the schema is neither that of a change nor that of a transaction's begin or end.
    """
    schema = json.loads(text)
    if row_of(schema) is None and not members(schema) >= _OF_BOUNDARY:
        return None
    there = {field["name"]: field for field in schema["fields"]}
    wanted = StructType([*_POSITION, *_BOUNDARY])
    # A column of a flat row may have any other name.
    names = [name for name in wanted.names if name.startswith("__") or "__commit_lsn" not in there]
    fields = [_narrow(there[name], wanted[name].dataType) for name in names if name in there]
    reader = json.dumps({**schema, "fields": fields})
    return from_avro(body, text, {**READING, "avroSchema": reader})


def _narrow(field: dict[str, Any], wanted: DataType) -> dict[str, Any]:
    if not isinstance(wanted, StructType):
        return field
    inner = {each["name"]: each for each in field["type"]["fields"]}
    return {**field, "type": {**field["type"], "fields": [inner[name] for name in wanted.names]}}
