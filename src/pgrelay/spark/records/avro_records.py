"""Avro records in the registry's wire format (a zero byte, four of the schema's id, the body) as changes.

Each id has its own decoder, for the schema that the value was written under: with one schema for all, Spark
silently reads the values of another as nulls.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, reduce
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import DataType, StructType

from pgrelay.encode.records import PLACEHOLDER
from pgrelay.spark.names import quoted
from pgrelay.spark.records.avro_values import converted
from pgrelay.spark.records.change_columns import (
    FOREIGN,
    INEXACT,
    PLACED,
    SIDES,
    UNKNOWN,
    UNREGISTERED,
    key_of,
    unidentified,
)
from pgrelay.spark.records.order import by_version
from pgrelay.spark.records.unchanged import doubtful, named_now
from pgrelay.spark.schemas.avro_schemas import WriterSchema, field_of, writer_schema
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableSchema
from pgrelay.spark.schemas.widening import widened

# By default a truncated value ends the query with a Java error that does not name the record; and a session's
# settings may take days before 1582 and times before 1900 for those of another calendar.
READING: Final = {"mode": "PERMISSIVE", "datetimeRebaseMode": "CORRECTED"}


def schema_id(value: Expression) -> Expression:
    """The schema id at a value's head; null if the value is not in the registry's wire format."""
    number = F.conv(F.hex(F.substring(value, 2, 4)), 16, 10).try_cast("int")
    return F.when(F.hex(F.substring(value, 1, 1)) == "00", number)


def decode(body: Expression, text: str) -> Expression:
    """A value by the schema that it was written under; all its fields are null if its bytes are invalid.

    No valid value is all null: each has a `commit_lsn`, or in the transaction topic a `status`.
    """
    return from_avro(body, text, READING)


class AvroRecords:
    """The Avro records of a topic, as a schema has them.

    `texts` has the schemas that they were written under, by id; `placeholder` as in `read_changes`. The
    expressions take thousands of calls into Java, so they are built once, and serve any number of batches.
    """

    def __init__(self, schema: TableSchema, texts: Mapping[int, str], placeholder: bool | None) -> None:
        self.schema = schema
        self.texts = texts
        self._placeholder = placeholder
        known = {number: writer_schema(number, text) for number, text in sorted(texts.items())}
        self._writers = [writer for writer in known.values() if writer is not None]
        self._foreign = [number for number, writer in known.items() if writer is None]
        self._steps: list[list[Expression | str]] | None = None

    def changes(self, records: DataFrame) -> DataFrame:
        """The records of the topic as changes; `read_changes` has both shapes."""
        rows = records.where(F.col("value").isNotNull())  # the others are tombstones
        decoded = rows.select(*self._head).select(*self._decoded)
        if self._steps is None:
            self._steps = self._on_decoded(decoded.schema)
        return reduce(lambda rows, columns: rows.select(*columns), self._steps, decoded)

    @cached_property
    def _head(self) -> list[Expression | str]:
        has_key, number = F.col("key").isNotNull(), _id(F.col("value"), self._writers)
        return ["topic", "partition", "offset", has_key.alias("has_key"), number.alias("id"), "value"]

    @cached_property
    def _decoded(self) -> list[Expression | str]:
        """A column for each schema, which holds the values of its id."""
        body = F.expr("substring(value, 6)")
        values = [F.when(F.col("id") == w.id, decode(body, w.text)).alias(w.decoded) for w in self._writers]
        return ["topic", "partition", "offset", "has_key", "id", "value", *values]

    def _on_decoded(self, decoded: StructType) -> list[list[Expression | str]]:
        """The columns of each further select on the way to the changes."""
        rows = _Rows(decoded, self.schema, self._writers, self._placeholder)
        corrupt = rows.corrupt(self._foreign).alias("corrupt")
        return [
            ["*", *rows.placed()],
            ["*", *(rows.row(side).alias(side) for side in SIDES), rows.unchanged().alias("unchanged")],
            [*PLACED, key_of(self.schema).alias("key"), *SIDES, "unchanged", corrupt],
        ]


def _id(value: Expression, writers: Iterable[WriterSchema]) -> Expression:
    """The schema's id. Known ids are found by comparison, which is faster than computing the number."""
    head = F.substring(value, 1, 5)
    known = [F.when(head == F.lit(b"\0" + w.id.to_bytes(4)), F.lit(w.id)) for w in writers]
    return F.coalesce(*known, schema_id(value))


class _Rows:
    """The expressions over decoded values, for one table."""

    def __init__(
        self, decoded: StructType, schema: TableSchema, writers: list[WriterSchema], placeholder: bool | None
    ) -> None:
        self._schema = schema
        self._writers = writers
        self._placeholder = placeholder
        self._types = {w.id: _row_type(decoded, w) for w in writers}

    def placed(self) -> list[Expression]:
        """The columns that place a change: op, commit_lsn, seq, txid and ts."""
        return [
            self._first("op", lambda w: F.col(f"{w.decoded}.{'__op' if w.flat else 'op'}"), "string"),
            self._first("commit_lsn", lambda w: self._source(w, "__commit_lsn", "commit_lsn"), "bigint"),
            self._first("seq", lambda w: self._source(w, "__seq", "seq"), "bigint"),
            self._first("txid", lambda w: self._source(w, None, "txId"), "bigint"),
            self._first("ts", self._committed, "timestamp"),
        ]

    def row(self, side: str) -> Expression:
        """The struct of a row; null if there is none."""

        def of(writer: WriterSchema) -> Expression:
            columns = self._schema.columns
            fields = [self._converted(writer, side, column).alias(column.name) for column in columns]
            return F.when(self._row(writer, side).isNotNull(), F.struct(*fields))

        return self._first(side, of, self._schema.row_type)

    def unchanged(self) -> Expression:
        """The names of unchanged columns, as an array that is empty rather than null."""
        told = self._first("unchanged", self._left_out, "array<string>")
        told = F.coalesce(told, F.array().cast("array<string>"))
        # The lambda keeps the rows beside it out of a huge method: see json_records.
        return F.filter(told, lambda name: name.isNotNull())

    def corrupt(self, foreign: list[int]) -> Expression:
        """Why the record can't be read exactly, and its bytes; null if it can.

        `foreign`: the ids of schemas that are not those of changes.
        """
        known = set(self._schema.known_names())
        ids = [writer.id for writer in self._writers]
        reasons = [
            F.when(F.col("id").isNull(), F.lit("not in the schema registry's wire format")),
            F.when(F.col("id").isin(foreign), F.concat(F.lit(FOREIGN), F.col("id"))),
            F.when(~F.col("id").isin(ids), F.concat(F.lit(UNREGISTERED), F.col("id"))),
            F.when(F.col("commit_lsn").isNull(), F.concat(F.lit("not a value of schema "), F.col("id"))),
        ]
        if flat := [writer.id for writer in self._writers if writer.flat]:
            reasons.append(unidentified(F.col("id").isin(flat)))
        for writer in self._writers:
            if unknown := ", ".join(sorted(writer.columns.keys() - known)):
                told = f"{UNKNOWN}{unknown}"
                reasons.append(F.when(F.col("id") == writer.id, F.lit(told)))
        for side in SIDES:
            for column in self._schema.columns:
                if all(self._is_exact(writer, column) for writer in self._writers):
                    continue
                there = self._first("", lambda w, c=column, s=side: self._value(w, s, c, _is_there))  # type: ignore[misc]
                lost = there & F.col(f"{side}.{quoted(column.name)}").isNull()
                if self._placeholder and side == "after":
                    lost &= ~F.array_contains("unchanged", column.name)
                kind = column.spark_type.simpleString()
                reasons.append(F.when(lost, F.lit(f"{column.name}: the value {INEXACT}{kind}")))
        if self._placeholder is None:
            reasons += [
                F.when(self._first("", self._held_of(column)), F.lit(doubtful(column.name)))
                for column in self._schema.columns
                if column.toastable and any(self._holds(w, column) for w in self._writers)
            ]
        return F.concat(F.coalesce(*reasons), F.lit(", in "), F.hex("value"))

    def _is_exact(self, writer: WriterSchema, column: Column) -> bool:
        """Whether the value is used as decoded, and so can't be lost."""
        return all(kind == column.spark_type for kind in self._kinds(writer, column))

    def _converted(self, writer: WriterSchema, side: str, column: Column) -> Expression:
        def convert(raw: Expression, kind: DataType, was: Column) -> Expression:
            if kind == column.spark_type:
                return raw
            value = converted(raw, kind, was)
            return value if was.spark_type == column.spark_type else widened(value, was, column)

        value = self._value(writer, side, column, convert)
        if self._placeholder and side == "after" and self._holds(writer, column):
            value = F.when(~self._held_of(column)(writer), value)
        return value.cast(column.spark_type)

    def _value(
        self,
        writer: WriterSchema,
        side: str,
        column: Column,
        of: Callable[[Expression, DataType, Column], Expression],
    ) -> Expression:
        """The result of `of`, given the decoded value, its type, and the column as of the change's position.

        Null before the column was added.
        """
        fields = self._fields(writer, column)
        if not fields:
            return F.lit(None)

        def read(was: Column) -> Expression:
            field = fields[was.name]
            return of(self._row(writer, side).getField(field), self._types[writer.id][field].dataType, was)

        lineage = self._schema.lineage(column.name)
        [(added, _), *_] = lineage
        # If the writer has several of the column's names, all but one belong there to other columns.
        [(_, first), *later] = [(since, was) for since, was in lineage if was.name in fields]
        return by_version([(added, first), *later], self._schema, read)

    def _fields(self, writer: WriterSchema, column: Column) -> dict[str, str]:
        """The writer's fields under any name that the column ever had, by that name; mostly one."""
        names = [was.name for _, was in self._schema.lineage(column.name)]
        return {name: field for name in names if (field := field_of(writer, name)) is not None}

    def _kinds(self, writer: WriterSchema, column: Column) -> list[DataType]:
        return [self._types[writer.id][field].dataType for field in self._fields(writer, column).values()]

    def _holds(self, writer: WriterSchema, column: Column) -> bool:
        """Whether the column's values are of a type that can hold the placeholder."""
        return any(map(_can_hold, self._kinds(writer, column)))

    def _held_of(self, column: Column) -> Callable[[WriterSchema], Expression]:
        """Whether the column's value is the placeholder; null if there is no value."""

        def held(raw: Expression, kind: DataType, _: Column) -> Expression:
            return raw.cast("string") == PLACEHOLDER if _can_hold(kind) else F.lit(False)

        return lambda writer: self._value(writer, "after", column, held)

    def _row(self, writer: WriterSchema, side: str) -> Expression:
        value = F.col(writer.decoded)
        if not writer.flat:
            return value.getField(side)
        deleted, truncated = value.getField("__deleted"), value.getField("__truncate").isNotNull()
        return F.when(~truncated & (deleted if side == "before" else ~deleted), value)

    def _left_out(self, writer: WriterSchema) -> Expression:
        told = F.col(writer.decoded).getField("__unchanged" if writer.flat else "unchanged")
        named = {field: name for name, field in writer.columns.items() if field != name}
        if named:
            pairs = F.create_map(*(F.lit(part) for pair in named.items() for part in pair))
            told = F.transform(told, lambda field: F.coalesce(F.try_element_at(pairs, field), field))
        told = named_now(told, self._schema)
        if not self._placeholder:
            return told
        held = [
            F.when(self._held_of(c)(writer), F.lit(c.name))
            for c in self._schema.columns
            if c.toastable and self._holds(writer, c)
        ]
        none = F.array().cast("array<string>")
        return F.concat(F.coalesce(told, none), F.array_compact(F.array(*held)) if held else none)

    def _source(self, writer: WriterSchema, flat: str | None, name: str) -> Expression:
        value = F.col(writer.decoded)
        if not writer.flat:
            return value.getField("source").getField(name)
        return value.getField(flat) if flat is not None else F.lit(None).cast("bigint")

    def _committed(self, writer: WriterSchema) -> Expression:
        if writer.flat:
            return F.timestamp_millis(F.col(writer.decoded).getField("__ts_ms"))
        return F.timestamp_micros(F.col(writer.decoded).getField("source").getField("ts_us"))

    def _first(
        self, name: str, of: Callable[[WriterSchema], Expression], kind: DataType | str = "boolean"
    ) -> Expression:
        """The result of `of`, which is of this type, for the schema that the value was written under."""
        if not self._writers:
            return F.lit(None).cast(kind).alias(name)
        if len(self._writers) == 1:
            return of(self._writers[0]).alias(name)
        branches = [(F.col("id") == writer.id, of(writer)) for writer in self._writers]
        chosen = reduce(lambda chain, branch: chain.when(*branch), branches[1:], F.when(*branches[0]))
        return chosen.alias(name) if name else chosen


def _is_there(raw: Expression, _: DataType, was: Column) -> Expression:
    return raw.isNotNull()


def _can_hold(kind: DataType) -> bool:
    """Whether values of this type can hold the placeholder."""
    return kind.typeName() in ("string", "binary")


def _row_type(decoded: StructType, writer: WriterSchema) -> StructType:
    value: DataType = decoded[writer.decoded].dataType
    assert isinstance(value, StructType)
    row = value if writer.flat else value["before"].dataType
    assert isinstance(row, StructType)
    return row
