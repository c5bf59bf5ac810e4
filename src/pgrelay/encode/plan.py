"""The encode plan of one relation: what can be computed before its first row.

A plan is built once per Relation message, so that a row costs only its bytes. It also counts the records. The
classes are plain, not dataclasses, because the per-row loop reads their attributes, and mypyc reads those of
a plain class fastest.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from pgrelay.encode.binary.values import binary_encoding
from pgrelay.encode.encodings import CONVERT, Encoding
from pgrelay.encode.json_text import json_name
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.partitions import Partition
from pgrelay.encode.records import CREATE, DELETE, MESSAGE, PLACEHOLDER, TRUNCATE, UPDATE, SchemaHeader
from pgrelay.encode.selection import DROP, HASH, HIDDEN_ENCODING, KEEP, MASK, hash_converter, masked_json
from pgrelay.encode.types import ColumnType, builtin_type
from pgrelay.encode.values.json_value import JsonEncoding
from pgrelay.encode.values.text import text_encoding
from pgrelay.errors import SetupError
from pgrelay.wire.pgoutput import Relation, RelationColumn

FULL: Final = "f"


@dataclass(frozen=True, slots=True)
class RelationFacts:
    """What the Relation message does not say, as the catalogue had it when asked.

    `primary_key`: column names in table order, empty if there is none. `types`: by OID, each type that is not
    built in, domains resolved to their base type. `dimensions`: by column, for array columns that were
    themselves declared with more than one. `non_full_partition`: if the table is FULL, a partition that is
    not, although its rows can be updated and deleted; else empty.
    """

    primary_key: tuple[str, ...] = ()
    types: dict[int, ColumnType] = field(default_factory=dict)
    dimensions: dict[str, int] = field(default_factory=dict)
    non_full_partition: str = ""


class ColumnPlan:
    """One column. `member` is `,"name":`; the other members save joining it to what often follows.
    `key_member` is the same in a key.

    `text` and `binary` are for values that come in that form; `encoding` is the name of the one in force.
    `encoded_name` is the column's name as records have it, `treatment` what the configuration's patterns say.
    A `suppressed` column (dropped or masked) has `member_suppressed` in place of any value. The values of one
    that is not `visible` (dropped, masked or hashed) may not be seen.
    """

    def __init__(
        self, table: str, column: RelationColumn, key: bool, pg_type: ColumnType, options: RecordOptions
    ):
        treatment = options.selection.treatment(table, column.name, key)
        text = text_encoding(pg_type, options.encodings)
        binary = binary_encoding(pg_type, options.encodings)
        if treatment == HASH:
            text = JsonEncoding(CONVERT, HIDDEN_ENCODING, hash_converter(text, options.selection.hash_key))
            if binary is not None:
                binary = JsonEncoding(
                    CONVERT, HIDDEN_ENCODING, hash_converter(binary, options.selection.hash_key)
                )
        self.table = table
        self.name = column.name
        self.type_oid = column.type_oid
        self.key = key
        self.type = pg_type
        self.treatment = treatment
        self.encoding: str = text.name if treatment != MASK else HIDDEN_ENCODING
        self.dropped: bool = treatment == DROP
        self.suppressed: bool = treatment in (DROP, MASK)
        self.visible: bool = treatment == KEEP
        self.encoded_name: bytes = json_name(column.name)
        self.member: bytes = b"," + self.encoded_name + b":"
        self.key_member: bytes = self.member
        self.member_null: bytes = self.member + b"null"
        self.member_unchanged: bytes = self.member + json_name(PLACEHOLDER)
        self.member_suppressed: bytes = b""
        if treatment == MASK:
            self.member_suppressed = self.member + masked_json(options.selection.mask_with)
        self.text: Encoding = text
        # None if we don't know the type's binary form.
        self.binary: Encoding | None = binary

    def unknown_form_error(self) -> SetupError:
        """The error for a value in a binary form that we don't know."""
        return SetupError(
            f"{self.table}.{self.name}: pgrelay does not read the binary form of type {self.type.name}; "
            "set source.binary: false"
        )


class Collection:
    """What records belong to, a relation or the logical messages, and how many there were.

    `source_names` names it in `source`.
    """

    def __init__(self, table: str, topic: str, source_names: bytes, options: RecordOptions) -> None:
        self.table = table
        self.topic = topic
        self.source_names = source_names
        self.limits = options.limits(topic)
        self.schema_header = SchemaHeader()
        self.creates = 0
        self.updates = 0
        self.deletes = 0
        self.truncates = 0
        self.messages = 0

    def take_counts(self) -> list[tuple[str, str, int]]:
        """Table, op and number of the records since the last call, of each op that had any."""
        counts = (
            (CREATE, self.creates),
            (UPDATE, self.updates),
            (DELETE, self.deletes),
            (TRUNCATE, self.truncates),
            (MESSAGE, self.messages),
        )
        self.creates = self.updates = self.deletes = self.truncates = self.messages = 0
        return [(self.table, op, count) for op, count in counts if count]


def names_in_json(schema: str, table: str) -> bytes:
    """A collection's `source_names`."""
    return b',"schema":' + json_name(schema) + b',"table":' + json_name(table)


class Plan(Collection):
    """How the rows of one relation become records."""

    def __init__(self, relation: Relation, facts: RelationFacts, topic: str, options: RecordOptions) -> None:
        super().__init__(str(relation), topic, names_in_json(relation.namespace, relation.name), options)
        self.relation = relation
        self.facts = facts
        # With its dot, `table` may also be another table's: "a.b".c and a."b.c".
        self.qualified_name = (relation.namespace, relation.name)
        # A partition whose updates and deletes can't be relayed, since their old rows are not whole.
        self.non_full_partition: str = facts.non_full_partition
        # Partitions that the stream described as not FULL, whatever they are by now.
        self.partitions: list[Partition] = []
        self.old_rows_may_be_partial: bool = bool(facts.non_full_partition)
        # Under FULL the message flags every column. The key is then the primary key, or none if one of its
        # columns is not sent or was renamed since: only a part of it would be the key of other rows too.
        self.full: bool = relation.replica_identity == FULL
        sent = {column.name for column in relation.columns}
        primary_key = facts.primary_key if sent.issuperset(facts.primary_key) else ()
        self.columns: list[ColumnPlan] = []
        for column in relation.columns:
            key = column.name in primary_key if self.full else column.key
            self.columns.append(self.column_plan(column, key, column_type(column, facts), options))
        self.has_key: bool = any(column.key for column in self.columns)
        self.keyed: bool = options.key and self.has_key
        # Whether the catalogue must be asked again when the Relation comes again: under FULL, about the key.
        self.facts_may_change: bool = self.full
        # Whether this plan's schema was announced, and no other of the same relation since.
        self.announced = False

    def column_plan(
        self, column: RelationColumn, key: bool, pg_type: ColumnType, options: RecordOptions
    ) -> ColumnPlan:
        """One column in the plan's format. Called while a plan is built, once it has `facts`."""
        return ColumnPlan(self.table, column, key, pg_type, options)

    def unsupported_binary(self, options: RecordOptions) -> SetupError | None:
        """Why the rows can't be relayed: values of a column come in a binary form that we don't know.

        Checked before the first row, since the first such value may come days later; but not when the
        Relation comes: partitions have Relations too, but no rows under their own names.
        """
        if options.binary_values:
            for column in self.columns:
                if column.type.has_binary_form and column.binary is None and not column.suppressed:
                    return column.unknown_form_error()
        return None

    def set_partitions(self, partitions: list[Partition]) -> None:
        """Note the partitions of this root whose old rows are not whole."""
        self.partitions = partitions
        self.old_rows_may_be_partial = bool(self.non_full_partition) or bool(partitions)


def column_type(column: RelationColumn, facts: RelationFacts) -> ColumnType:
    """The column's type. One unknown to us and to the catalogue (dropped since) is taken as text."""
    known = builtin_type(column.type_oid, column.typmod)
    if known is not None:
        return known
    known = facts.types.get(column.type_oid)
    if known is None:
        return ColumnType(column.type_oid, "unknown", column.typmod, has_binary_form=False)
    # A column of a domain has no modifier of its own.
    return known if column.typmod < 0 else replace(known, typmod=column.typmod)
