"""How far each partition is applied to a target, kept in a property of a table beside it.

A relay that was killed writes some records again. Apart from these, positions only rise within a partition,
so a change that is not above the highest applied position is a repetition. The target itself can't tell: a
deleted row has no position there any more, and a repeated create would bring it back.

The table has no rows. To read a row that was just written, Delta takes six jobs, a second on a small machine,
and each row that is replaced leaves a file behind.

A target has one writer. Nothing locks it, so a writer looks for others before and after each commit of its
own: the property names its writer, and changes with each commit.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType

from pgrelay.errors import GapError, PgrelayError, SetupError
from pgrelay.lsn import format_lsn
from pgrelay.spark.lake.applied_positions import AppliedPositions, parse_mark
from pgrelay.spark.lake.tables import PROPERTIES_ONLY, LakeTable
from pgrelay.spark.schemas.schema import Position, TableSchema

SUFFIX: Final = "__positions"

# Properties of a target: the topic and the cluster of its rows, and the position of its schema.
_TOPIC: Final = "pgrelay.topic"
_SYSTEMID: Final = "pgrelay.systemid"
_SCHEMA: Final = "pgrelay.schema"

# The property of the table beside it: a mark of all that is applied, with two more fields: the writer of the
# property, and a version of the target that has all this. Before a commit that must not be made twice, a
# third has that commit's mark.
_APPLIED: Final = "pgrelay.applied"
_WRITER: Final = "writer"
_ANNOUNCED: Final = "next"
_VERSION: Final = "since"

_END_ONE: Final = "end one of the two, and start the other again"
_FILL_AGAIN: Final = "take a new checkpoint, to fill the target again from what the topic still holds"


def target_properties(schema: TableSchema) -> dict[str, str]:
    """The properties of a target that has the schema's last version."""
    lsn, seq = schema.latest.position
    properties = {_TOPIC: schema.topic, _SCHEMA: f"{lsn}/{seq}"}
    # An unknown cluster must not replace a known one.
    return properties | ({_SYSTEMID: schema.systemid} if schema.systemid else {})


def drop_call(target: LakeTable) -> str:
    """The call that drops a target: DROP TABLE leaves its positions, and files of earlier sessions."""
    name = target.name.replace('"', '\\"')
    return f'pgrelay.spark.drop(spark, "{name}", using="{target.using}")'


def positions_table(target: LakeTable) -> LakeTable:
    """The table beside a target that has the property; it may not exist."""
    return target.companion(SUFFIX)


def is_positions_table(table: LakeTable) -> bool:
    """Whether a table that exists is the one beside a target."""
    return table.canonical_name().endswith(f"{SUFFIX}`") and _APPLIED in table.properties()


class Positions:
    """The positions of a target, as one writer knows them: what is `applied`, and the target's schema."""

    def __init__(self, target: LakeTable, schema: TableSchema) -> None:
        self.applied = AppliedPositions(schema.topic)
        self.systemid = schema.systemid
        self._target = target
        self._table = positions_table(target)
        self._schema_position: Position | None = None
        # Whether a property of the target names its cluster: schemas from a registry do not have it.
        self._target_has_cluster = True
        self._writer = uuid4().hex
        # The property, as this writer last read or wrote it.
        self._last_property: str | None = None
        # Whether the target has an announced commit that `_last_property` does not count as applied yet.
        self._found_announced = False
        # A version of the target that has all that is applied, if known.
        self._known_version: int | None = None

    @classmethod
    def read(cls, target: LakeTable, schema: TableSchema) -> "Positions":
        """What is remembered of a target. Raises GapError if it is another cluster's, and SetupError if it is
        another topic's or no target at all, or if it lost what was applied to it, or the table beside it."""
        positions = cls(target, schema)
        if target.exists():
            properties = target.properties()
            positions._read_schema(properties)
            positions._read_applied(schema)
            positions._read_cluster(properties.get(_SYSTEMID, ""))
        return positions

    @property
    def schema_position(self) -> Position | None:
        """The position of the schema's version that the target has; None if there is no target yet."""
        return self._schema_position

    @property
    def has_target(self) -> bool:
        return self._schema_position is not None

    def _read_schema(self, properties: dict[str, str]) -> None:
        if _SCHEMA not in properties:
            raise SetupError(f"{self._target.name} was not made by pgrelay: name another target, or drop it")
        topic, ours = properties.get(_TOPIC), self.applied.topic
        # Positions are kept for one topic only: rows that the other deleted would come back.
        if topic not in (None, ours):
            raise SetupError(
                f"{self._target.name} has the rows of {topic}: name another target for {ours}, or drop it "
                f"with {drop_call(self._target)}"
            )
        lsn, seq = properties[_SCHEMA].split("/")
        self._schema_position = (int(lsn), int(seq))

    def _read_applied(self, schema: TableSchema) -> None:
        self._last_property = self._read_property()
        if self._last_property is None and not self._target.is_empty():
            raise self._missing_error()
        self.applied.add_mark(self._last_property)
        fields = parse_mark(self._last_property)
        self._known_version = fields.get(_VERSION)
        self._refuse_reverted()
        if _ANNOUNCED in fields:
            self._found_announced = self._was_committed(fields[_ANNOUNCED], fields[_VERSION])
            if self._found_announced:
                self.applied.add_mark(fields[_ANNOUNCED])
        elif _WRITER not in fields and not all(
            any(c.key for c in version.columns) for version in schema.versions
        ):
            # An earlier release wrote it, without announcing commits. A table that has a key now may have had
            # none in an earlier version.
            for mark in self._target.marks()[0]:
                self.applied.add_mark(mark)

    def _was_committed(self, mark: str, since: int) -> bool:
        """Whether the target has an announced commit. Raises SetupError if its log begins later."""
        marks, is_complete = self._target.marks(since)
        if mark in marks:
            return True
        if not is_complete:
            raise SetupError(
                f"{self.applied.topic}: the mirror ended while it wrote to {self._target.name}, at LSN "
                f"{self._lsn}, and the commits of that time are gone, so nothing shows whether the "
                "batch was written, and it must not be written twice: fill the target again, with a new "
                f"checkpoint, after {drop_call(self._target)}"
            )
        return False

    def _read_cluster(self, systemid: str) -> None:
        self._target_has_cluster = bool(systemid)
        if systemid and self.systemid and systemid != self.systemid:
            raise GapError(
                f"{self.applied.topic}: written by Postgres cluster {self.systemid}, but {self._target.name} "
                f"holds rows of cluster {systemid} up to LSN {self._lsn}, and their LSNs can't be compared: "
                "start again with a new topic prefix and a new checkpoint, after "
                f"{drop_call(self._target)}"
            )

    def create_target(self, columns: StructType, schema: TableSchema) -> None:
        """Create the target. Raises PgrelayError if another writer did so meanwhile."""
        self.refuse_other_writer()
        # First, so that a target with rows always has the table beside it. DROP TABLE leaves an earlier
        # target's, whose positions a mirror that was killed too early would find, and skip its records.
        self._write_property()
        self._target.create(columns, target_properties(schema))
        self._schema_position = schema.latest.position

    def replace_target(self, columns: StructType, schema: TableSchema) -> None:
        """Give the target other columns and no rows: a mirror that is killed right after loses nothing.

        Raises PgrelayError if another writer has changed the positions.
        """
        self._refuse_conflict()
        self._known_version = None
        self._write_property()
        self._refuse_conflict()
        self._target.replace(columns, target_properties(schema))

    def note_schema(self, schema: TableSchema) -> None:
        """Note that the target has the columns of the schema's last version."""
        self._target.set_properties(target_properties(schema))
        self._schema_position = schema.latest.position

    def note_cluster(self) -> None:
        """Note the cluster in a target that was created from a schema without one."""
        if self.systemid and not self._target_has_cluster:
            self._target.set_properties({_SYSTEMID: self.systemid})
        self._target_has_cluster = True

    def refuse_other_writer(self) -> None:
        """Raise PgrelayError if another writer has changed the positions since this one last read or wrote
        them.

        That is a SetupError if they were dropped, or the target was put back to an earlier version. The other
        may have deleted rows that this one's write would bring back.
        """
        if self.has_target:
            self._refuse_conflict()
            self._refuse_reverted()
        elif self._target.exists():
            raise PgrelayError(
                f"{self.applied.topic}: another mirror has created {self._target.name}: {_END_ONE}"
            )

    @contextmanager
    def announcing(self, commit: AppliedPositions) -> Iterator[None]:
        """Record beside the target what the block's commit will have applied, and mark the commit with it.

        For a commit that must not be made twice: if the mirror is killed, the mark shows whether it was made,
        however many commits of others follow, as long as the target's log goes back to it. Raises
        PgrelayError if another writer announces one right now: only one of two announcements stays.
        """
        mark = commit.mark()
        self._write_property(**{_ANNOUNCED: mark})
        self._refuse_conflict()
        with self._target.marking(mark):
            yield

    def write(self, batch: AppliedPositions) -> None:
        """Record that a batch is applied, after its changes were written.

        Raises PgrelayError if another writer did so meanwhile. That is a SetupError if the other got further,
        or if this one's commit was announced: its rows may have been written after the other's. Also if the
        positions were dropped.
        """
        self.applied.add(batch)
        # An announced commit that was found must not be searched for again: the log may no longer have it.
        if not (batch.by_partition or self._found_announced):
            return
        if (other := self._applied_by_other()) is not None:
            conflict = self._conflict(other)
            if not (_ANNOUNCED in parse_mark(self._last_property) or other.is_beyond(self.applied)):
                raise PgrelayError(f"{conflict}: {_END_ONE}")
            raise SetupError(
                f"{conflict}, and both wrote just now, so that deleted rows may be back, or rows without a "
                f"key be added or deleted twice: {_END_ONE}, and fill the target again, with a new "
                f"checkpoint, after {drop_call(self._target)}"
            )
        self._known_version = self._target.version()
        self._write_property()

    def _missing_error(self) -> SetupError:
        """The error for a target without the table beside it: repetitions would restore deleted rows."""
        return SetupError(
            f"{self.applied.topic}: {self._target.name} has rows, but {self._table.name}, where the mirror "
            "remembers what is applied to it, does not exist: if the target was renamed, rename that table "
            f"too; if it was dropped, call {drop_call(self._target)}, and {_FILL_AGAIN}"
        )

    def dropped_error(self) -> SetupError:
        """The error for a target, or the table beside it, that is gone although a mirror has written it."""
        has_target, has_positions = self._target.exists(), self._table.exists()
        gone = self._table.name if has_target else self._target.name
        first = f"call {drop_call(self._target)}, and " if has_target or has_positions else ""
        return SetupError(
            f"{self.applied.topic}: {gone} was dropped while the mirror ran: {first}{_FILL_AGAIN}"
        )

    def _applied_by_other(self) -> AppliedPositions | None:
        """What another writer has applied, if one changed the property. Raises SetupError if it is gone."""
        if (found := self._read_property()) == self._last_property:
            return None
        if found is None:
            raise self.dropped_error()
        other = AppliedPositions(self.applied.topic)
        other.add_mark(found)
        return other

    def _conflict(self, other: AppliedPositions) -> str:
        return (
            f"{self.applied.topic}: another mirror writes to {self._target.name} and has it at LSN "
            f"{format_lsn(other.highest_lsn)}, this one at {self._lsn}"
        )

    def _refuse_conflict(self) -> None:
        if (other := self._applied_by_other()) is not None:
            raise PgrelayError(f"{self._conflict(other)}: {_END_ONE}")

    def _refuse_reverted(self) -> None:
        """Raise SetupError if the target lost what counts as applied, which would be skipped for ever."""
        version = self._target.version()
        if self._known_version not in (None, version) and self._target.was_reverted(self._known_version):
            raise SetupError(
                f"{self.applied.topic}: {self._target.name} was replaced or put back to an earlier version, "
                f"and lacks what the mirror had applied to it, up to LSN {self._lsn}: put it back, by "
                f"{self._target.restore_statement(self._known_version)}, or fill it again, with a new "
                f"checkpoint, after {drop_call(self._target)}"
            )
        self._known_version = version

    @property
    def _lsn(self) -> str:
        return format_lsn(self.applied.highest_lsn)

    def _read_property(self) -> str | None:
        try:
            return self._table.properties().get(_APPLIED)
        except AnalysisException:
            # Not checked first: done twice a batch, it costs Delta as much as the properties do.
            if self._table.exists():
                raise
            return None

    def _write_property(self, **more: Any) -> None:
        is_new = self._last_property is None and not self._table.exists()
        self._last_property = self.applied.mark(
            **{_WRITER: self._writer, _VERSION: self._known_version}, **more
        )
        self._found_announced = False
        properties = {_APPLIED: self._last_property}
        if is_new:
            # If another writer creates it right now, theirs stays, and the next check finds it.
            self._table.create(PROPERTIES_ONLY, properties)
        else:
            self._table.set_properties(properties)
