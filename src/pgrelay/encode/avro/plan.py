"""The encode plan of one relation in Avro: columns with their Avro types, and constant parts of bodies."""

from dataclasses import replace

from pgrelay.encode.avro.body import NULL, PRESENT, sized, string
from pgrelay.encode.avro.kinds import Schema
from pgrelay.encode.avro.names import avro_name, utf8_safe
from pgrelay.encode.avro.types import STRING, avro_binary_encoding, avro_text_encoding
from pgrelay.encode.encodings import Encoding
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import ColumnPlan, Plan, RelationFacts
from pgrelay.encode.records import PLACEHOLDER
from pgrelay.encode.selection import HASH, MASK
from pgrelay.encode.types import ColumnType
from pgrelay.wire.pgoutput import Relation, RelationColumn


class AvroColumn(ColumnPlan):
    """One column. `schema` is its type without null, `field` its name.

    `member` is the union branch of a non-null value; empty if the column can't be null. A key's column can't
    be, except in the flat envelope, where a truncate has no row. `member_unchanged` is empty if the type has
    no place for the placeholder.
    """

    def __init__(
        self,
        table: str,
        column: RelationColumn,
        key: bool,
        pg_type: ColumnType,
        options: RecordOptions,
        dimensions: int,
    ) -> None:
        super().__init__(table, column, key, pg_type, options)
        self.field: str = avro_name(column.name)
        self.nullable: bool = not key or options.envelope == "flat"
        self.schema: Schema = STRING.schema
        if self.treatment == HASH:
            # The digest is of the value's JSON, so that it is the same in every format.
            self.text = _unquoted(self.text)
            if self.binary is not None:
                self.binary = _unquoted(self.binary)
        elif self.treatment != MASK:
            text = avro_text_encoding(pg_type, options.encodings, dimensions)
            self.text, self.schema, self.encoding = text, text.schema, text.name
            self.binary = avro_binary_encoding(pg_type, options.encodings, dimensions)
        self.encoded_name = string(self.field)
        self.member = PRESENT if self.nullable else b""
        self.key_member = b""
        self.member_null = NULL if not self.dropped else b""
        self.member_unchanged = b""
        if self.schema in ("string", "bytes"):
            self.member_unchanged = PRESENT + string(PLACEHOLDER)
        if self.treatment == MASK:
            self.member_suppressed = PRESENT + string(options.selection.mask_with)


def _unquoted(digest: Encoding) -> Encoding:
    """As an Avro string, what is a JSON string that needs no escaping."""
    return replace(digest, convert=lambda value: sized(digest.encode(value)[1:-1]))


def names_in_avro(schema: str, table: str) -> bytes:
    """A collection's `source_names`."""
    return string(utf8_safe(schema)) + string(utf8_safe(table))


class AvroPlan(Plan):
    """`fields` are the columns that are not dropped, `namespace` is that of the relation's schemas."""

    def __init__(
        self, relation: Relation, facts: RelationFacts, topic: str, options: RecordOptions, namespace: str
    ) -> None:
        super().__init__(relation, facts, topic, options)
        self.namespace = namespace
        # All columns are of this class, by `column_plan`.
        columns = (column for column in self.columns if isinstance(column, AvroColumn))
        self.fields: list[AvroColumn] = [column for column in columns if not column.dropped]
        # Arrays' dimensions are facts, which a table may change without a new Relation.
        self.facts_may_change = self.facts_may_change or any(column.type.is_array for column in self.columns)
        self.source_names = names_in_avro(relation.namespace, relation.name)
        self._in_json: Plan | None = None

    def in_json(self, options: RecordOptions) -> Plan:
        """The plan of the same relation in JSON, built on the first call."""
        if self._in_json is None:
            self._in_json = Plan(self.relation, self.facts, self.topic, options)
        return self._in_json

    def column_plan(
        self, column: RelationColumn, key: bool, pg_type: ColumnType, options: RecordOptions
    ) -> ColumnPlan:
        dimensions = self.facts.dimensions.get(column.name, pg_type.dimensions)
        return AvroColumn(self.table, column, key, pg_type, options, dimensions)
