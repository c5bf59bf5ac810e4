"""Hand-made records in the relay's form, and rows in a form that tests compare."""

import base64
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

from pgrelay.spark.records.json_records import JsonRecords
from pgrelay.spark.records.sql import JSON_OPTIONS
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableSchema, TableVersion

Row = dict[str, Any]


@dataclass(frozen=True)
class Message:
    """One record of a topic."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0


_RECORD: Final = "topic string, partition int, offset bigint, key binary, value binary"


def produce(servers: str, topic: str, messages: Iterable[Message]) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    for message in messages:
        producer.produce(topic, message.value, message.key, message.partition)
    assert producer.flush(30) == 0


def as_read(spark: SparkSession, topic: str, messages: Iterable[Message]) -> DataFrame:
    """Records as from Kafka's source, without a broker, of a topic with exactly these messages."""
    ends = Counter[int]()
    records = []
    for message in messages:
        place = {"topic": topic, "partition": message.partition, "offset": ends[message.partition]}
        records.append(place | {"key": _base64(message.key), "value": _base64(message.value)})
        ends[message.partition] += 1
    return as_constant(spark, records, _RECORD)


def as_tuples(spark: SparkSession, rows: Iterable[tuple[Any, ...]], shape: str) -> DataFrame:
    """A data frame of Python's tuples, in each of which a struct is a tuple too."""
    kind = ArrayType(StructType.fromDDL(shape))
    return as_constant(spark, _named(list(rows), kind), shape)


def as_constant(spark: SparkSession, rows: list[Row], shape: str) -> DataFrame:
    """A data frame of JSON's objects.

    As one constant: a data frame made by Spark from Python's objects goes through Python processes at each
    read.
    """
    read = F.from_json(F.lit(json.dumps(rows)), f"array<struct<{shape}>>", JSON_OPTIONS)
    return spark.range(1, numPartitions=1).select(F.inline(read))


def _named(value: Any, kind: DataType) -> Any:
    if isinstance(kind, ArrayType) and value is not None:
        return [_named(each, kind.elementType) for each in value]
    if isinstance(kind, StructType) and value is not None:
        pairs = zip(kind.fields, value, strict=True)
        return {field.name: _named(each, field.dataType) for field, each in pairs}
    return value


def changes_of(
    spark: SparkSession, schema: TableSchema, messages: Iterable[Message], placeholder: bool | None = None
) -> DataFrame:
    """The changes of a table's topic with exactly these messages."""
    return json_reader(schema, placeholder).changes(as_read(spark, schema.topic, messages))


@lru_cache
def json_reader(schema: TableSchema, placeholder: bool | None = None) -> JsonRecords:
    """The reader of a topic's records; creating one takes longer than reading so few records."""
    return JsonRecords(schema, placeholder)


class Topic:
    """A topic without a broker: records in, and changes out, like those of `read_changes`."""

    name = "app.public.t"

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.written: list[Message] = []

    def write(self, *messages: Message) -> None:
        self.written += messages

    def changes(self, schema: TableSchema, placeholder: bool | None = None) -> DataFrame:
        """All records of the topic as changes."""
        return changes_of(self.spark, schema, self.written, placeholder)


def numeric(precision: int, scale: int) -> int:
    """The type modifier of numeric(precision, scale)."""
    return (precision << 16 | scale & 0x7FF) + 4


def table(topic: str, *columns: Column, identity: str = "default", systemid: str = "1") -> TableSchema:
    """A schema with one version."""
    return TableSchema(topic, "public", "t", (TableVersion((1, 0), columns, identity),), systemid)


def change(
    op: str,
    lsn: int,
    seq: int = 0,
    *,
    after: Row | None = None,
    before: Row | None = None,
    key: Row | None = None,
    partition: int = 0,
    unchanged: list[str] | None = None,
) -> Message:
    """A record in Debezium's envelope, made from the columns' JSON."""
    members: Row = {"before": before, "after": after}
    if unchanged:
        members["unchanged"] = unchanged
    source = {"name": "app", "schema": "public", "table": "t", "txId": 7, "commit_lsn": lsn, "seq": seq}
    members |= {"source": {**source, "ts_us": 1_000_000 + lsn}, "op": op, "transaction": None}
    return Message(_json(members), None if key is None else _json(key), partition)


def flat(op: str, lsn: int, seq: int = 0, row: Row | None = None, *, key: Row | None = None) -> Message:
    """The same in the flat envelope."""
    ends = {"__op": op, "__deleted": op == "d", "__commit_lsn": lsn, "__seq": seq, "__ts_ms": 1}
    return Message(_json({**(row or {}), **ends}), None if key is None else _json(key))


def tombstone(key: Row) -> Message:
    return Message(None, _json(key))


def rows(frame: DataFrame, *columns: str) -> Counter[tuple[Any, ...]]:
    """The rows as a multiset, with these columns or with all except those that pgrelay adds."""
    names = columns or [name for name in frame.columns if not name.startswith("__")]
    return Counter(tuple(row) for row in frame.select(*names).collect())


def in_local_time(at: datetime) -> datetime:
    """A moment as Spark gives it to Python: without a zone, as this machine's clocks show it."""
    return at.astimezone().replace(tzinfo=None)


def _json(value: Row) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
