"""Avro records in the registry's wire format (a zero byte, four bytes of schema id, the body) as changes.

Each id has its own decoder, for the schema that its values were written under: given one schema for all,
Spark silently reads values of the others as nulls.
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
from pgrelay.spark.names import constant, quoted, sql_type
from pgrelay.spark.records.avro_values import converted
from pgrelay.spark.records.change_columns import (
    FOREIGN,
    INEXACT,
    METADATA_COLUMNS,
    SIDES,
    UNKNOWN,
    UNREGISTERED,
    key_struct,
    unidentified_row,
)
from pgrelay.spark.records.order import by_version
from pgrelay.spark.records.sql import alias, case, constant_array, parse_columns, string_array, when
from pgrelay.spark.records.unchanged import current_names, possible_placeholder
from pgrelay.spark.schemas.avro_schemas import WriterSchema, field_of, writer_schema
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableSchema
from pgrelay.spark.schemas.widening import widened

# By default a truncated value ends the query with a Java error that does not name the record, and a session's
# settings may place days before 1582 and times before 1900 in another calendar.
READ_OPTIONS: Final = {"mode": "PERMISSIVE", "datetimeRebaseMode": "CORRECTED"}


def schema_id(value: Expression) -> Expression:
    """The schema id at a value's head; null if the value is not in the registry's wire format."""
    number = F.conv(F.hex(F.substring(value, 2, 4)), 16, 10).try_cast("int")
    return F.when(F.hex(F.substring(value, 1, 1)) == "00", number)


def decode(body: Expression, text: str) -> Expression:
    """A value by the schema that it was written under; all its fields are null if its bytes are invalid.

    No valid value is all null: each has a `commit_lsn`, or in the transaction topic a `status`.
    """
    return from_avro(body, text, READ_OPTIONS)


class AvroRecords:
    """Reads the Avro records of a topic by a table's schema.

    `texts` has the schemas that they were written under, by id; `placeholder` is as in `read_changes`. One
    instance serves any number of batches.
    """

    def __init__(self, schema: TableSchema, texts: Mapping[int, str], placeholder: bool | None) -> None:
        self.schema = schema
        self.texts = texts
        self._placeholder = placeholder
        known = {number: writer_schema(number, text) for number, text in sorted(texts.items())}
        self._writers = [writer for writer in known.values() if writer is not None]
        self._foreign = [number for number, writer in known.items() if writer is None]
        self._parsed: list[list[Expression]] | None = None

    def changes(self, records: DataFrame) -> DataFrame:
        """The records of the topic as changes; `read_changes` has both shapes."""
        rows = records.where("value IS NOT NULL")  # the others are tombstones
        decoded = rows.select(*self._head).select(*self._decoded)
        if self._parsed is None:
            steps = self._later_steps(decoded.schema)
            self._parsed = [parse_columns(records.sparkSession, columns) for columns in steps]
        return reduce(lambda rows, columns: rows.select(*columns), self._parsed, decoded)

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

    def _later_steps(self, decoded: StructType) -> list[list[str]]:
        """The columns of each select after the decoding, on the way to the changes."""
        rows = _Rows(decoded, self.schema, self._writers, self._placeholder)
        return [
            ["*", *rows.metadata()],
            ["*", *(alias(rows.row(side), side) for side in SIDES), alias(rows.unchanged(), "unchanged")],
            [
                *map(quoted, METADATA_COLUMNS),
                alias(key_struct(self.schema), "key"),
                *SIDES,
                "unchanged",
                alias(rows.corrupt(self._foreign), "corrupt"),
            ],
        ]


def _id(value: Expression, writers: Iterable[WriterSchema]) -> Expression:
    """The schema's id. Known ids are found by comparison, which is faster than computing the number."""
    head = F.substring(value, 1, 5)
    known = [F.when(head == F.lit(b"\0" + w.id.to_bytes(4)), F.lit(w.id)) for w in writers]
    return F.coalesce(*known, schema_id(value))


class _Rows:
    """The SQL over decoded values, for one table."""

    def __init__(
        self, decoded: StructType, schema: TableSchema, writers: list[WriterSchema], placeholder: bool | None
    ) -> None:
        self._schema = schema
        self._writers = writers
        self._placeholder = placeholder
        self._types = {w.id: _row_type(decoded, w) for w in writers}

    def metadata(self) -> list[str]:
        """The columns op, commit_lsn, seq, txid and ts."""
        op = self._by_writer(lambda w: f"{w.decoded}.{'__op' if w.flat else 'op'}", "string")
        return [
            alias(op, "op"),
            alias(
                self._by_writer(lambda w: _source(w, "__commit_lsn", "commit_lsn"), "bigint"), "commit_lsn"
            ),
            alias(self._by_writer(lambda w: _source(w, "__seq", "seq"), "bigint"), "seq"),
            alias(self._by_writer(lambda w: _source(w, None, "txId"), "bigint"), "txid"),
            alias(self._by_writer(_committed, "timestamp_ltz"), "ts"),
        ]

    def row(self, side: str) -> str:
        """The struct of a row; null if there is none."""

        def of(writer: WriterSchema) -> str:
            columns = self._schema.columns
            fields = [alias(self._converted(writer, side, c), c.name) for c in columns]
            return when(f"{_row(writer, side)} IS NOT NULL", f"struct({', '.join(fields)})")

        fields = (f"{quoted(c.name)}: {sql_type(c.spark_type)}" for c in self._schema.columns)
        return self._by_writer(of, f"struct<{', '.join(fields)}>")

    def unchanged(self) -> str:
        """The names of unchanged columns, as an array that is empty rather than null."""
        names = f"coalesce({self._by_writer(self._unchanged_names, 'array<string>')}, {constant_array([])})"
        # The lambda keeps the rows beside it out of a huge method: see json_records.
        return f"filter({names}, name -> name IS NOT NULL)"

    def corrupt(self, foreign: list[int]) -> str:
        """Why the record can't be read exactly, and its bytes; null if it can.

        `foreign`: the ids of schemas that are not those of changes.
        """
        known = set(self._schema.known_names())
        flat = [writer.id for writer in self._writers if writer.flat]
        reasons = [
            when("id IS NULL", constant("not in the schema registry's wire format")),
            when(_id_in(foreign), f"concat({constant(FOREIGN)}, id)"),
            when(f"NOT {_id_in(w.id for w in self._writers)}", f"concat({constant(UNREGISTERED)}, id)"),
            when("commit_lsn IS NULL", "concat('not a value of schema ', id)"),
            unidentified_row(_id_in(flat)),
        ]
        reasons += [
            when(f"id = {writer.id}", constant(f"{UNKNOWN}{', '.join(unknown)}"))
            for writer in self._writers
            if (unknown := sorted(writer.columns.keys() - known))
        ]
        reasons += [
            self._inexact(side, column)
            for side in SIDES
            for column in self._schema.columns
            if not all(self._is_exact(writer, column) for writer in self._writers)
        ]
        if self._placeholder is None:
            reasons += [
                when(
                    self._by_writer(self._is_placeholder(column)), constant(possible_placeholder(column.name))
                )
                for column in self._schema.columns
                if column.toastable and any(self._may_hold_placeholder(w, column) for w in self._writers)
            ]
        return f"concat(coalesce({', '.join(reasons)}), ', in ', hex(value))"

    def _inexact(self, side: str, column: Column) -> str:
        """That a value could not be read exactly; null if it could."""
        is_present = self._by_writer(
            lambda w: self._value(w, side, column, lambda raw, *_: f"({raw} IS NOT NULL)")
        )
        lost = f"{is_present} AND {side}.{quoted(column.name)} IS NULL"
        if self._placeholder and side == "after":
            lost += f" AND NOT array_contains(unchanged, {constant(column.name)})"
        kind = column.spark_type.simpleString()
        return when(lost, constant(f"{column.name}: the value {INEXACT}{kind}"))

    def _is_exact(self, writer: WriterSchema, column: Column) -> bool:
        """Whether the value is used as decoded, and so can't be lost."""
        return all(kind == column.spark_type for kind in self._kinds(writer, column))

    def _converted(self, writer: WriterSchema, side: str, column: Column) -> str:
        def convert(raw: str, kind: DataType, was: Column) -> str:
            if kind == column.spark_type:
                return raw
            value = converted(raw, kind, was)
            return value if was.spark_type == column.spark_type else widened(value, was, column)

        value = self._value(writer, side, column, convert)
        if self._placeholder and side == "after" and self._may_hold_placeholder(writer, column):
            value = when(f"NOT {self._is_placeholder(column)(writer)}", value)
        return f"CAST({value} AS {sql_type(column.spark_type)})"

    def _value(
        self, writer: WriterSchema, side: str, column: Column, of: Callable[[str, DataType, Column], str]
    ) -> str:
        """The result of `of`, given the decoded value, its type, and the column as of the change's position.

        Null before the column was added.
        """
        fields = self._fields(writer, column)
        if not fields:
            return "NULL"

        def read(was: Column) -> str:
            field = fields[was.name]
            return of(f"{_row(writer, side)}.{quoted(field)}", self._types[writer.id][field].dataType, was)

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

    def _may_hold_placeholder(self, writer: WriterSchema, column: Column) -> bool:
        """Whether the column's values are of a type that can hold the placeholder."""
        return any(map(_fits_placeholder, self._kinds(writer, column)))

    def _is_placeholder(self, column: Column) -> Callable[[WriterSchema], str]:
        """Whether the column's value is the placeholder; null if there is no value."""

        def held(raw: str, kind: DataType, _: Column) -> str:
            return f"(CAST({raw} AS string) = '{PLACEHOLDER}')" if _fits_placeholder(kind) else "false"

        return lambda writer: self._value(writer, "after", column, held)

    def _unchanged_names(self, writer: WriterSchema) -> str:
        listed = f"{writer.decoded}.{'__unchanged' if writer.flat else 'unchanged'}"
        renamed = {field: name for name, field in writer.columns.items() if field != name}
        if renamed:
            pairs = ", ".join(constant(part) for pair in renamed.items() for part in pair)
            listed = f"transform({listed}, field -> coalesce(try_element_at(map({pairs}), field), field))"
        listed = current_names(listed, self._schema)
        if not self._placeholder:
            return listed
        held = [
            when(self._is_placeholder(c)(writer), constant(c.name))
            for c in self._schema.columns
            if c.toastable and self._may_hold_placeholder(writer, c)
        ]
        return f"concat(coalesce({listed}, {constant_array([])}), array_compact({string_array(held)}))"

    def _by_writer(self, of: Callable[[WriterSchema], str], kind: str = "boolean") -> str:
        """The result of `of`, of type `kind`, for the schema that the value was written under."""
        if not self._writers:
            return f"CAST(NULL AS {kind})"
        if len(self._writers) == 1:
            return of(self._writers[0])
        return case([(f"id = {writer.id}", of(writer)) for writer in self._writers])


def _row(writer: WriterSchema, side: str) -> str:
    """The decoded row; null if there is none."""
    if not writer.flat:
        return f"{writer.decoded}.{side}"
    deleted = f"{'' if side == 'before' else 'NOT '}{writer.decoded}.__deleted"
    return when(f"{writer.decoded}.__truncate IS NULL AND {deleted}", writer.decoded)


def _source(writer: WriterSchema, flat: str | None, name: str) -> str:
    """A member of `source`, in the flat envelope under the name `flat`."""
    if not writer.flat:
        return f"{writer.decoded}.source.{name}"
    return f"{writer.decoded}.{flat}" if flat is not None else "CAST(NULL AS bigint)"


def _committed(writer: WriterSchema) -> str:
    if writer.flat:
        return f"timestamp_millis({writer.decoded}.__ts_ms)"
    return f"timestamp_micros({writer.decoded}.source.ts_us)"


def _id_in(ids: Iterable[int]) -> str:
    """Whether the schema's id is one of these."""
    found = ", ".join(map(str, ids))
    return f"(id IN ({found}))" if found else "false"


def _fits_placeholder(kind: DataType) -> bool:
    """Whether values of this type can hold the placeholder."""
    return kind.typeName() in ("string", "binary")


def _row_type(decoded: StructType, writer: WriterSchema) -> StructType:
    value: DataType = decoded[writer.decoded].dataType
    assert isinstance(value, StructType)
    row = value if writer.flat else value["before"].dataType
    assert isinstance(row, StructType)
    return row
