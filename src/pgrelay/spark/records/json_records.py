"""JSON records, in the envelope of Debezium or flat, as changes.

A row is parsed into a map from column to the text of its value, so that an absent column differs from a null
one, and an unknown column shows. The texts are put in the order of the schema's columns, in which they mostly
are already. Each value is then converted by the version of the schema that it was written under.

Each step contains a lambda on purpose. Spark generates a single method for a step without one, and HotSpot
never compiles a method of more than 8,000 bytes, which a dozen columns exceed. A step with a lambda is
generated in pieces.
"""

from collections.abc import Iterator
from functools import cached_property, reduce
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame

from pgrelay.encode.records import FLAT_NAMES, PLACEHOLDER
from pgrelay.spark.names import constant, quoted
from pgrelay.spark.records.change_columns import (
    ABSENT,
    INEXACT,
    INEXACT_DOCUMENT,
    METADATA_COLUMNS,
    SIDES,
    UNKNOWN,
    key_struct,
    unidentified_row,
)
from pgrelay.spark.records.documents import (
    document_columns,
    document_value,
    is_document,
    needs_document,
    value_of_document,
)
from pgrelay.spark.records.order import before, by_version
from pgrelay.spark.records.sql import (
    alias,
    case,
    constant_array,
    from_json,
    parse_columns,
    string_array,
    when,
)
from pgrelay.spark.records.unchanged import current_names, possible_placeholder
from pgrelay.spark.records.values import is_text, value_of
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableSchema
from pgrelay.spark.schemas.widening import widened

_ROW: Final = "map<string, string>"
_ENVELOPE: Final = (
    f"before {_ROW}, after {_ROW}, unchanged array<string>, op string,"
    " source struct<commit_lsn: bigint, seq: bigint, txId: bigint, ts_us: bigint>,"
    " __op string, __malformed string"
)
_IS_FLAT: Final = "(envelope.__op IS NOT NULL)"

# The columns that show what is wrong with a record.
_KEPT: Final = (
    *("is_flat", "has_key", "before_row", "after_row", "before_texts", "after_texts", "listed_unchanged"),
    *("text", "malformed"),
)


class JsonRecords:
    """Reads the JSON records of a topic by a table's schema; one instance serves any number of batches.

    `placeholder` is as in `read_changes`.
    """

    def __init__(self, schema: TableSchema, placeholder: bool | None) -> None:
        self.schema = schema
        self._placeholder = placeholder
        self._parsed: list[list[Expression]] | None = None

    def changes(self, records: DataFrame) -> DataFrame:
        """The records of the topic as changes; `read_changes` has both shapes."""
        if self._parsed is None:
            self._parsed = [parse_columns(records.sparkSession, columns) for columns in self._steps()]
        rows = records.where("value IS NOT NULL")  # the others are tombstones
        return reduce(lambda rows, columns: rows.select(*columns), self._parsed, rows)

    def _steps(self) -> list[list[str]]:
        """The columns of each select on the way to the changes."""
        rows = _Rows(self.schema, self._placeholder)
        metadata = [quoted(name) for name in METADATA_COLUMNS]
        return [
            _envelope(),
            ["*", alias(when(_IS_FLAT, from_json("text", _ROW)), "flat")],
            [*_metadata_and_rows(), *document_columns("text", self.schema)],
            ["*", *(alias(rows.texts(side), f"{side}_texts") for side in SIDES)],
            [
                *metadata,
                *_KEPT,
                *(alias(rows.row(side), side) for side in SIDES),
                alias(rows.unchanged(), "unchanged"),
            ],
            [
                *metadata,
                alias(key_struct(self.schema), "key"),
                *SIDES,
                "unchanged",
                alias(rows.corrupt(), "corrupt"),
            ],
        ]


def _envelope() -> list[str]:
    text = "CAST(value AS string)"
    envelope = from_json(text, _ENVELOPE, columnNameOfCorruptRecord="__malformed")
    return [
        *("topic", "partition", "`offset`"),
        alias("key IS NOT NULL", "has_key"),
        alias(text, "text"),
        alias(envelope, "envelope"),
    ]


def _metadata_and_rows() -> list[str]:
    """The metadata of the change, and its rows: `before_row` and `after_row`, maps of texts."""

    def either(of_flat: str, of_envelope: str) -> str:
        return when(_IS_FLAT, of_flat, of_envelope)

    def number(member: str) -> str:
        return f"try_cast(flat.{member} AS bigint)"

    def row(condition: str) -> str:
        own = ", ".join(map(constant, sorted(FLAT_NAMES)))
        row = f"map_filter(flat, (name, value) -> name NOT IN ({own}))"
        return when(f"{condition} AND flat.__truncate IS NULL", row)

    flat_unchanged = from_json("flat.__unchanged", "array<string>")
    malformed = f"(envelope.__malformed IS NOT NULL AND NOT {_IS_FLAT} OR envelope IS NULL)"
    ts = either(f"timestamp_millis({number('__ts_ms')})", "timestamp_micros(envelope.source.ts_us)")
    return [
        *("topic", "partition", "`offset`"),
        alias(either("flat.__op", "envelope.op"), "op"),
        alias(either(number("__commit_lsn"), "envelope.source.commit_lsn"), "commit_lsn"),
        alias(either(number("__seq"), "envelope.source.seq"), "seq"),
        alias("envelope.source.txId", "txid"),
        alias(ts, "ts"),
        alias(either(flat_unchanged, "envelope.unchanged"), "listed_unchanged"),
        alias(_IS_FLAT, "is_flat"),
        "has_key",
        alias(either(row("flat.__deleted = 'true'"), "envelope.before"), "before_row"),
        alias(either(row("flat.__deleted != 'true'"), "envelope.after"), "after_row"),
        "text",
        alias(malformed, "malformed"),
    ]


class _Rows:
    """The SQL over the rows of records, for one table."""

    def __init__(self, schema: TableSchema, placeholder: bool | None) -> None:
        self._schema = schema
        self._placeholder = placeholder
        self._known = schema.known_names()

    def texts(self, side: str) -> str:
        """The texts of a row, in the order of `known_names`; null if there is no row."""
        row = f"{side}_row"
        in_order = f"map_keys({row}) = {constant_array(column.name for column in self._schema.columns)}"
        found = f"transform({constant_array(self._known)}, name -> try_element_at({row}, name))"
        return case([(f"{row} IS NULL", "NULL"), (in_order, f"map_values({row})")], found)

    def row(self, side: str) -> str:
        """The row as a struct; null if there is none."""
        fields = (alias(self._value(side, c), c.name) for c in self._schema.columns)
        return when(f"{side}_texts IS NOT NULL", f"struct({', '.join(fields)})")

    def unchanged(self) -> str:
        """The names of unchanged columns; an empty array rather than null."""
        listed = current_names(f"coalesce(listed_unchanged, {constant_array([])})", self._schema)
        held = [
            when(f"{self._written_text('after', c)} = '{PLACEHOLDER}'", constant(c.name))
            for c in self._schema.columns
            if c.toastable and self._placeholder
        ]
        both = f"concat({listed}, {string_array(held)})" if held else listed
        return f"filter({both}, name -> name IS NOT NULL)"

    def corrupt(self) -> str:
        """Why the record can't be read exactly, and its text; null if it can."""
        no_record = "malformed OR op IS NULL OR commit_lsn IS NULL OR seq IS NULL"
        reasons = [
            when("startswith(text, chr(0))", "'a record in Avro: pass the registry'"),
            when(no_record, constant("no record of a table's change in JSON")),
            unidentified_row("is_flat"),
        ]
        for side in ("after", "before"):
            reasons += self._misnamed(side)
            for column in self._schema.columns:
                reasons += self._inexact(side, column)
        return f"concat(coalesce({', '.join(reasons)}), ', in ', text)"

    def _text(self, side: str, name: str) -> str:
        # Past the end, and so null, if the row has the columns in force and no others.
        return f"get({side}_texts, {self._known.index(name)})"

    def _written_text(self, side: str, column: Column) -> str:
        """The text of a column, under the name that it had when it was written."""
        lineage = self._schema.lineage(column.name)
        return by_version(lineage, self._schema, lambda was: self._text(side, was.name))

    def _value(self, side: str, column: Column) -> str:
        """A column's value, converted by the version of the schema that held at the change's position."""

        def read(was: Column) -> str:
            text = self._text(side, was.name)
            if needs_document(was):
                value = value_of_document(text, document_value(side, self._schema, was.name), was)
            else:
                value = value_of(text, was)
            if self._placeholder and was.toastable and side == "after":
                value = when(f"{text} != '{PLACEHOLDER}'", value)
            return value if was.spark_type == column.spark_type else widened(value, was, column)

        return by_version(self._schema.lineage(column.name), self._schema, read)

    def _misnamed(self, side: str) -> list[str]:
        """What is wrong with the names of a row's columns; null if nothing is."""
        names, expected = f"map_keys({side}_row)", self._expected
        listed = f"coalesce(listed_unchanged, {constant_array([])})"
        absent = f"array_except({expected}, array_union({names}, {listed}))"
        unknown = f"filter({names}, name -> NOT array_contains({constant_array(self._known)}, name))"
        reasons = {UNKNOWN: unknown}
        if side == "after":
            reasons = {ABSENT: absent} | reasons
        # Only the few rows with other names are examined closely.
        return [
            when(
                f"{names} != {expected} AND size({which}) > 0",
                f"concat({constant(why)}, array_join({which}, ', '))",
            )
            for why, which in reasons.items()
        ]

    @cached_property
    def _expected(self) -> str:
        """The columns that a row has by the version that held at the change's position."""
        versions = self._schema.versions
        names = [constant_array(column.name for column in version.columns) for version in versions]
        later = [before(version.position) for version in versions[1:]]
        return case([*zip(later, names, strict=False)], names[-1])

    def _inexact(self, side: str, column: Column) -> Iterator[str]:
        """What may be wrong with a column's value; each is null if it is not."""
        text = self._written_text(side, column)
        if column.toastable and self._placeholder is None:
            yield when(f"{text} = '{PLACEHOLDER}'", constant(possible_placeholder(column.name)))
        if all(is_text(was) and not needs_document(was) for _, was in self._schema.lineage(column.name)):
            return
        lost = f"{text} IS NOT NULL AND {side}.{quoted(column.name)} IS NULL"
        if column.toastable and self._placeholder:
            lost += f" AND {text} != '{PLACEHOLDER}'"
        kind = INEXACT_DOCUMENT if is_document(column) else f"{INEXACT}{column.spark_type.simpleString()}"
        start, end = constant(f"{column.name}: '"), constant(f"' {kind}")
        yield when(lost, f"concat({start}, {text}, {end})")
