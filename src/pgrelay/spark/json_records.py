"""JSON records, in the envelope of Debezium or flat, as changes.

A row is parsed into a map from column to the text of its value: absent and null stay apart, an unknown column
shows, and each value becomes its type by the version of the schema that it was written under.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pgrelay.spark.columns import Column
from pgrelay.spark.documents import documents_of, needs_document, value_of_document
from pgrelay.spark.order import before
from pgrelay.spark.schema import Position, TableSchema
from pgrelay.spark.values import JSON_OPTIONS, value_of
from pgrelay.spark.widening import widened

PLACEHOLDER: Final = "__debezium_unavailable_value"

_ROW: Final = "map<string, string>"
_ENVELOPE: Final = (
    f"before {_ROW}, after {_ROW}, unchanged array<string>, op string,"
    " source struct<commit_lsn: bigint, seq: bigint, txId: bigint, ts_us: bigint>,"
    " __op string, __malformed string"
)
_FLAT_NAMES: Final = ["__op", "__deleted", "__commit_lsn", "__seq", "__ts_ms", "__unchanged", "__truncate"]

# The columns of changes that stay what they are from the parse on.
_PLACE: Final = ["topic", "partition", "offset", "op", "commit_lsn", "seq", "txid", "ts"]


def json_changes(records: DataFrame, schema: TableSchema, placeholder: bool | None) -> DataFrame:
    """Changes of a topic's records: see `read_changes` for both shapes."""
    parsed = _parsed(records, schema)
    typed = parsed.select(
        *_PLACE,
        _row(F.col("key_texts"), schema, keys_only=True).alias("key"),
        _row(F.col("before_texts"), schema, "before").alias("before"),
        _row(F.col("after_texts"), schema, "after", placeholder).alias("after"),
        _unchanged(schema, placeholder).alias("unchanged"),
        *[name for name in parsed.columns if name not in (*_PLACE, "unchanged")],
    )
    return typed.select(*_PLACE, "key", "before", "after", "unchanged", _corrupt(schema, placeholder))


def _parsed(records: DataFrame, schema: TableSchema) -> DataFrame:
    """The records without tombstones; of each row a map of texts."""
    text = F.col("value").cast("string")
    flat = F.col("envelope.__op").isNotNull()
    options = JSON_OPTIONS | {"columnNameOfCorruptRecord": "__malformed"}
    envelopes = records.where(F.col("value").isNotNull()).select(
        "topic",
        "partition",
        "offset",
        F.from_json(F.col("key").cast("string"), _ROW, JSON_OPTIONS).alias("key_texts"),
        text.alias("text"),
        F.from_json(text, _ENVELOPE, options).alias("envelope"),
    )
    rows = envelopes.select("*", F.when(flat, F.from_json("text", _ROW, JSON_OPTIONS)).alias("flat"))
    source = F.col("envelope.source")

    def either(of_flat: Expression, of_envelope: Expression) -> Expression:
        return F.when(flat, of_flat).otherwise(of_envelope)

    deleted = F.col("flat.__deleted") == "true"
    has_row = F.col("flat.__truncate").isNull()
    malformed = F.col("envelope.__malformed").isNotNull() & ~flat
    return rows.select(
        "topic",
        "partition",
        "offset",
        either(F.col("flat.__op"), F.col("envelope.op")).alias("op"),
        either(F.col("flat.__commit_lsn").try_cast("bigint"), source.commit_lsn).alias("commit_lsn"),
        either(F.col("flat.__seq").try_cast("bigint"), source.seq).alias("seq"),
        source.txId.alias("txid"),
        either(
            F.timestamp_millis(F.col("flat.__ts_ms").try_cast("bigint")), F.timestamp_micros(source.ts_us)
        ).alias("ts"),
        either(
            F.from_json(F.col("flat.__unchanged"), "array<string>", JSON_OPTIONS), F.col("envelope.unchanged")
        ).alias("unchanged"),
        "key_texts",
        either(F.when(deleted & has_row, F.col("flat")), F.col("envelope.before")).alias("before_texts"),
        either(F.when(~deleted & has_row, F.col("flat")), F.col("envelope.after")).alias("after_texts"),
        "text",
        (malformed | F.col("envelope").isNull()).alias("malformed"),
        *documents_of(F.col("text"), schema),
    )


def _row(
    texts: Expression,
    schema: TableSchema,
    side: str = "",
    placeholder: bool | None = None,
    *,
    keys_only: bool = False,
) -> Expression:
    """The struct of a row; null where there is none."""
    fields = [
        _value(texts, schema, column, side, placeholder).alias(column.name)
        for column in schema.columns
        if column.key or not keys_only
    ]
    row = F.struct(*fields) if fields else F.struct()
    return F.when(texts.isNotNull(), row)


def _value(
    texts: Expression, schema: TableSchema, column: Column, side: str, placeholder: bool | None
) -> Expression:
    """A column's value, converted by the version of the schema that held at the change's position."""

    def read(was: Column) -> Expression:
        text = F.try_element_at(texts, F.lit(was.name))
        if needs_document(was) and side:
            value = value_of_document(text, F.col(f"{side}_documents").getField(was.name), was)
        else:
            value = value_of(text, was)
        if placeholder and was.toastable:
            value = F.when(text != PLACEHOLDER, value)
        return value if was.spark_type == column.spark_type else widened(value, was, column)

    return _by_version(schema.lineage(column.name), schema, read)


def _by_version(
    lineage: list[tuple[Position, Column]], schema: TableSchema, read: Callable[[Column], Expression]
) -> Expression:
    """What `read` gives for what the column was at the change's position; null before it was added."""
    position, column = lineage[-1]
    value = read(column)
    if len(lineage) == 1 and position == schema.versions[0].position:
        return value
    # Rows older than all that is known are read by the oldest version.
    first = lineage[0][0]
    branches = F.when(before(first), None) if first > schema.versions[0].position else None
    for (_, was), (until, _) in pairwise(lineage):
        branches = (
            F.when(before(until), read(was)) if branches is None else branches.when(before(until), read(was))
        )
    return value if branches is None else branches.otherwise(value)


def _unchanged(schema: TableSchema, placeholder: bool | None) -> Expression:
    """The names of unchanged columns, as an array that is empty rather than null."""
    told = F.coalesce(F.col("unchanged"), F.array().cast("array<string>"))
    if not placeholder:
        return told
    held = [
        F.when(F.try_element_at(F.col("after_texts"), F.lit(c.name)) == PLACEHOLDER, F.lit(c.name))
        for c in schema.columns
        if c.toastable
    ]
    return F.array_compact(F.array(*held)) if held else told


def _corrupt(schema: TableSchema, placeholder: bool | None) -> Expression:
    """Why the record can't be read exactly, and its text; null where it can."""
    no_record = (
        F.col("malformed") | F.col("op").isNull() | F.col("commit_lsn").isNull() | F.col("seq").isNull()
    )
    reasons = [
        F.when(F.col("text").startswith("\0"), F.lit("a record in Avro: pass the registry")),
        F.when(no_record, F.lit("no record of a table's change in JSON")),
    ]
    absent = F.array_except(_expected(schema), F.array_union(F.map_keys("after_texts"), F.col("unchanged")))
    told = F.concat(F.lit("columns of the schema that are missing: "), F.array_join(absent, ", "))
    reasons.append(F.when(F.size(absent) > 0, told))
    for side in ("after", "before"):
        texts = F.col(f"{side}_texts")
        unknown = F.array_except(F.map_keys(texts), _literals([*schema.known_names(), *_FLAT_NAMES]))
        told = F.concat(F.lit("columns that the schema does not have: "), F.array_join(unknown, ", "))
        reasons.append(F.when(F.size(unknown) > 0, told))
        reasons += [_inexact(texts, side, schema, column, placeholder) for column in schema.columns]
    return F.concat(F.coalesce(*reasons), F.lit(", in "), F.col("text")).alias("corrupt")


def _expected(schema: TableSchema) -> Expression:
    """The columns that a row has by the version that held at the change's position."""
    names = [_literals([column.name for column in version.columns]) for version in schema.versions]
    if len(names) == 1:
        return names[0]
    branches = F.when(before(schema.versions[1].position), names[0])
    for version, of_version in zip(schema.versions[2:], names[1:], strict=False):
        branches = branches.when(before(version.position), of_version)
    return branches.otherwise(names[-1])


def _inexact(
    texts: Expression, side: str, schema: TableSchema, column: Column, placeholder: bool | None
) -> Expression:
    """What is wrong with a column's value; null where nothing is."""
    text = _by_version(
        schema.lineage(column.name), schema, lambda was: F.try_element_at(texts, F.lit(was.name))
    )
    kind = column.spark_type.simpleString()
    quoted = F.concat(F.lit(f"{column.name}: '"), text)
    lost = text.isNotNull() & F.col(f"{side}.`{column.name.replace('`', '``')}`").isNull()
    if not column.toastable:
        return F.when(lost, F.concat(quoted, F.lit(f"' is not exactly a {kind}")))
    if placeholder:
        return F.when(lost & (text != PLACEHOLDER), F.concat(quoted, F.lit(f"' is not exactly a {kind}")))
    if placeholder is None:
        held = F.when(text == PLACEHOLDER, F.concat(quoted, F.lit("' stands for an unchanged value: say so")))
        return F.coalesce(held, F.when(lost, F.concat(quoted, F.lit(f"' is not exactly a {kind}"))))
    return F.when(lost, F.concat(quoted, F.lit(f"' is not exactly a {kind}")))


def _literals(names: list[str]) -> Expression:
    return F.array(*(F.lit(name) for name in names))
