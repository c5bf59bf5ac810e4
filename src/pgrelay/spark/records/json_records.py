"""JSON records, in the envelope of Debezium or flat, as changes.

A row is parsed into a map from column to the text of its value. So an absent column differs from a null one,
and an unknown column shows. The texts are put in the order of the schema's columns, which they mostly are in
already. Each value is then converted by the version of the schema that it was written under.

Each step contains a lambda on purpose. Spark generates one method for a step without one, and HotSpot never
compiles a method of more than 8,000 bytes, which a dozen columns exceed. A step with a lambda is generated in
pieces.
"""

from collections.abc import Iterator
from functools import cached_property, reduce
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pgrelay.encode.records import FLAT_NAMES, PLACEHOLDER
from pgrelay.spark.names import quoted
from pgrelay.spark.records.change_columns import ABSENT, INEXACT, PLACED, SIDES, UNKNOWN, key_of, unidentified
from pgrelay.spark.records.documents import document_of, documents_of, needs_document, value_of_document
from pgrelay.spark.records.order import before, by_version
from pgrelay.spark.records.unchanged import doubtful, named_now
from pgrelay.spark.records.values import JSON_OPTIONS, is_text, value_of
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableSchema
from pgrelay.spark.schemas.widening import widened

_ROW: Final = "map<string, string>"
_ENVELOPE: Final = (
    f"before {_ROW}, after {_ROW}, unchanged array<string>, op string,"
    " source struct<commit_lsn: bigint, seq: bigint, txId: bigint, ts_us: bigint>,"
    " __op string, __malformed string"
)

# The columns that show what is wrong with a record.
_KEPT: Final = (
    *("is_flat", "has_key", "before_row", "after_row", "before_texts", "after_texts", "told", "text"),
    "malformed",
)


class JsonRecords:
    """The JSON records of a topic, as a schema has them.

    `placeholder` as in `read_changes`. Building the expressions takes thousands of calls into Java, more than
    half a second for a dozen columns. So they are built once, and serve any number of batches.
    """

    def __init__(self, schema: TableSchema, placeholder: bool | None) -> None:
        self.schema = schema
        self.placeholder = placeholder

    def changes(self, records: DataFrame) -> DataFrame:
        """The records of the topic as changes; `read_changes` has both shapes."""
        rows = records.where(F.col("value").isNotNull())  # the others are tombstones
        return reduce(lambda rows, columns: rows.select(*columns), self._steps, rows)

    @cached_property
    def _steps(self) -> list[list[Expression | str]]:
        """The columns of each select on the way to the changes."""
        schema, placeholder = self.schema, self.placeholder
        corrupt = _corrupt(schema, placeholder)
        return [
            _envelope(),
            ["*", F.when(_is_flat(), F.from_json("text", _ROW, JSON_OPTIONS)).alias("flat")],
            _parsed(schema),
            ["*", *(_texts(side, schema).alias(f"{side}_texts") for side in SIDES)],
            [
                *PLACED,
                *_KEPT,
                *(_row(side, schema, placeholder).alias(side) for side in SIDES),
                _unchanged(schema, placeholder).alias("unchanged"),
            ],
            [*PLACED, key_of(schema).alias("key"), *SIDES, "unchanged", corrupt.alias("corrupt")],
        ]


def _is_flat() -> Expression:
    return F.col("envelope.__op").isNotNull()


def _envelope() -> list[Expression | str]:
    text = F.col("value").cast("string")
    options = JSON_OPTIONS | {"columnNameOfCorruptRecord": "__malformed"}
    return [
        "topic",
        "partition",
        "offset",
        F.col("key").isNotNull().alias("has_key"),
        text.alias("text"),
        F.from_json(text, _ENVELOPE, options).alias("envelope"),
    ]


def _parsed(schema: TableSchema) -> list[Expression | str]:
    """What the record says about the change; each row is a map of texts, `before_row` or `after_row`."""
    flat, source = _is_flat(), F.col("envelope.source")

    def either(of_flat: Expression, of_envelope: Expression) -> Expression:
        return F.when(flat, of_flat).otherwise(of_envelope)

    row = F.map_filter("flat", lambda name, _: ~name.isin(*sorted(FLAT_NAMES)))
    deleted = F.col("flat.__deleted") == "true"
    has_row = F.col("flat.__truncate").isNull()
    malformed = F.col("envelope.__malformed").isNotNull() & ~flat
    return [
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
        ).alias("told"),  # as unchanged
        flat.alias("is_flat"),
        "has_key",
        either(F.when(deleted & has_row, row), F.col("envelope.before")).alias("before_row"),
        either(F.when(~deleted & has_row, row), F.col("envelope.after")).alias("after_row"),
        "text",
        (malformed | F.col("envelope").isNull()).alias("malformed"),
        *documents_of(F.col("text"), schema),
    ]


def _texts(side: str, schema: TableSchema) -> Expression:
    """The texts of a row, in the order of `known_names`; null if there is no row."""
    row, names = F.col(f"{side}_row"), _literals(schema.known_names())
    in_order = F.map_keys(row) == _literals([column.name for column in schema.columns])
    found = F.transform(names, lambda name: F.try_element_at(row, name))
    return F.when(row.isNull(), None).when(in_order, F.map_values(row)).otherwise(found)


def _text(side: str, schema: TableSchema, name: str) -> Expression:
    # Past the end, and so null, if the row has the columns in force and no others.
    return F.get(f"{side}_texts", F.lit(schema.known_names().index(name)))


def _row(side: str, schema: TableSchema, placeholder: bool | None) -> Expression:
    """The row as a struct; null if there is none."""
    fields = [_value(side, schema, column, placeholder).alias(column.name) for column in schema.columns]
    return F.when(F.col(f"{side}_texts").isNotNull(), F.struct(*fields))


def _value(side: str, schema: TableSchema, column: Column, placeholder: bool | None) -> Expression:
    """A column's value, converted by the version of the schema that held at the change's position."""

    def read(was: Column) -> Expression:
        text = _text(side, schema, was.name)
        if needs_document(was):
            value = value_of_document(text, document_of(side, schema, was.name), was)
        else:
            value = value_of(text, was)
        if placeholder and was.toastable and side == "after":
            value = F.when(text != PLACEHOLDER, value)
        return value if was.spark_type == column.spark_type else widened(value, was, column)

    return by_version(schema.lineage(column.name), schema, read)


def _unchanged(schema: TableSchema, placeholder: bool | None) -> Expression:
    """The names of unchanged columns; an empty array rather than null."""
    told = named_now(F.coalesce("told", F.array().cast("array<string>")), schema)
    held = [
        F.when(_written(schema, "after", c) == PLACEHOLDER, F.lit(c.name))
        for c in schema.columns
        if c.toastable and placeholder
    ]
    return F.filter(F.concat(told, F.array(*held)) if held else told, lambda name: name.isNotNull())


def _written(schema: TableSchema, side: str, column: Column) -> Expression:
    """The text of a column, under the name that it had when it was written."""
    return by_version(schema.lineage(column.name), schema, lambda was: _text(side, schema, was.name))


def _corrupt(schema: TableSchema, placeholder: bool | None) -> Expression:
    """Why the record can't be read exactly, and its text; null if it can."""
    no_record = (
        F.col("malformed") | F.col("op").isNull() | F.col("commit_lsn").isNull() | F.col("seq").isNull()
    )
    reasons = [
        F.when(F.col("text").startswith("\0"), F.lit("a record in Avro: pass the registry")),
        F.when(no_record, F.lit("no record of a table's change in JSON")),
        unidentified(F.col("is_flat")),
    ]
    for side in ("after", "before"):
        reasons += _misnamed(side, schema)
        for column in schema.columns:
            reasons += _inexact(side, schema, column, placeholder)
    return F.concat(F.coalesce(*reasons), F.lit(", in "), F.col("text"))


def _misnamed(side: str, schema: TableSchema) -> list[Expression]:
    """What is wrong with the names of a row's columns; null if nothing is."""
    names, expected = F.map_keys(f"{side}_row"), _expected(schema)
    told = F.coalesce("told", F.array().cast("array<string>"))
    absent = F.array_except(expected, F.array_union(names, told))
    unknown = F.filter(names, lambda name: ~name.isin(schema.known_names()))
    reasons = {UNKNOWN: unknown}
    if side == "after":
        reasons = {ABSENT: absent} | reasons
    # Only the few rows with other names are examined closely.
    return [
        F.when((names != expected) & (F.size(which) > 0), F.concat(F.lit(why), F.array_join(which, ", ")))
        for why, which in reasons.items()
    ]


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
    side: str, schema: TableSchema, column: Column, placeholder: bool | None
) -> Iterator[Expression]:
    """What may be wrong with a column's value; each is null if it is not."""
    text = _written(schema, side, column)
    if column.toastable and placeholder is None:
        yield F.when(text == PLACEHOLDER, F.lit(doubtful(column.name)))
    if all(is_text(was) and not needs_document(was) for _, was in schema.lineage(column.name)):
        return
    told = F.concat(F.lit(f"{column.name}: '"), text)
    lost = text.isNotNull() & F.col(f"{side}.{quoted(column.name)}").isNull()
    if column.toastable and placeholder:
        lost &= text != PLACEHOLDER
    yield F.when(lost, F.concat(told, F.lit(f"' {INEXACT}{column.spark_type.simpleString()}")))


def _literals(names: list[str]) -> Expression:
    return F.array(*(F.lit(name) for name in names))
