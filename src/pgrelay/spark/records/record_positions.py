"""Positions of records, and the begins and ends of transactions, without decoding anything else."""

import json
from typing import Any, Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, LongType, StringType, StructType

from pgrelay.spark.records.avro_records import READ_OPTIONS, schema_id
from pgrelay.spark.records.sql import JSON_OPTIONS
from pgrelay.spark.schemas.avro_schemas import members, row_of
from pgrelay.spark.schemas.registry import Registry

_LONG: Final = LongType()
# The fields of a change, in both envelopes, that are read here.
_CHANGE: Final = (
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


def with_positions(records: DataFrame, registry: Registry | None, boundaries: str = "") -> DataFrame:
    """The records as POSITIONED; `commit_lsn` and `seq` are null if the record can't be read.

    `ts_ms` is the commit time, in milliseconds since 1970. `boundaries` is the transaction topic, if it is
    read too; its records have a `commit_lsn`, no `seq`, and their content in `boundary`.
    """
    decoded = records if registry is None else _by_schema(records, registry)

    def read(shape: StructType) -> Expression:
        in_json = F.from_json(F.col("value").cast("string"), shape, JSON_OPTIONS)
        if registry is None:
            return in_json
        # A value without an id is JSON, from before Avro.
        return F.when(F.col("id").isNull(), in_json).otherwise(_shaped(decoded, shape))

    is_boundary = F.col("topic") == boundaries
    parsed = decoded.select(
        *_RAW,
        F.when(~is_boundary, read(_CHANGE)).alias("change"),
        F.when(is_boundary, read(_BOUNDARY)).alias("boundary"),
    )
    # The flat envelope's fields come first: a column of its row may be named `source`.
    lsn = F.coalesce("change.__commit_lsn", "change.source.commit_lsn", "boundary.commit_lsn")
    seq = F.coalesce("change.__seq", "change.source.seq")
    ts = F.coalesce("change.__ts_ms", F.expr("change.source.ts_us div 1000"), "boundary.ts_ms")
    return parsed.select(*_RAW, lsn.alias("commit_lsn"), seq.alias("seq"), ts.alias("ts_ms"), "boundary")


def _by_schema(records: DataFrame, registry: Registry) -> DataFrame:
    """The records with the `id` of their schema, null in JSON, and a column for each, with its values."""
    with_id = records.withColumn("id", schema_id(F.col("value")))
    ids = [row["id"] for row in with_id.where("id IS NOT NULL").select("id").distinct().collect()]
    body = F.expr("substring(value, 6)")
    values = [
        F.when(F.col("id") == number, value).alias(f"v_{number}")
        for number, text in registry.schemas_by_id(ids).items()
        if (value := _decoded(body, text)) is not None
    ]
    return with_id.select(*_RAW, "id", *values)


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
    if row_of(schema) is None and not members(schema) >= {*_BOUNDARY.names}:
        return None
    by_name = {field["name"]: field for field in schema["fields"]}
    wanted = StructType([*_CHANGE, *_BOUNDARY])
    # A column of a flat row may have any other name.
    names = [name for name in wanted.names if name.startswith("__") or "__commit_lsn" not in by_name]
    fields = [_narrow(by_name[name], wanted[name].dataType) for name in names if name in by_name]
    reader = json.dumps({**schema, "fields": fields})
    return from_avro(body, text, {**READ_OPTIONS, "avroSchema": reader})


def _narrow(field: dict[str, Any], wanted: DataType) -> dict[str, Any]:
    if not isinstance(wanted, StructType):
        return field
    inner = {each["name"]: each for each in field["type"]["fields"]}
    return {**field, "type": {**field["type"], "fields": [inner[name] for name in wanted.names]}}
