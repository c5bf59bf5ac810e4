"""How far each partition is applied to a target, kept in a property of a table beside it.

A relay that was killed writes some records again. Apart from these, positions only rise within a partition,
so a change that is not above the highest applied position is a repetition. A deleted row has no position of
its own in the target any more: without this memory a repeated create would bring it back.

The table has no rows. To read a row that was just written, Delta needs six jobs, a second on a small machine;
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
from pgrelay.spark.lake.applied import Applied, parsed
from pgrelay.spark.lake.tables import NO_ROWS, LakeTable
from pgrelay.spark.schemas.schema import Position, TableSchema

SUFFIX: Final = "__positions"

# Properties of a target: the topic and the cluster of its rows, and the position of its schema.
_TOPIC: Final = "pgrelay.topic"
_SYSTEMID: Final = "pgrelay.systemid"
_SCHEMA: Final = "pgrelay.schema"

# The property of the table beside it: the mark of all that is applied, the writer of the property, and a
# version of the target that has all this. Before a commit that must not be made twice: also its mark.
_APPLIED: Final = "pgrelay.applied"
_WRITER: Final = "writer"
_NEXT: Final = "next"
_SINCE: Final = "since"

_END_ONE: Final = "end one of the two, and start the other again"
_FILL_AGAIN: Final = "take a new checkpoint, to fill the target again from what the topic still holds"


def target_properties(schema: TableSchema) -> dict[str, str]:
    """The properties of a target that has the schema's last version."""
    lsn, seq = schema.latest.position
    told = {_TOPIC: schema.topic, _SCHEMA: f"{lsn}/{seq}"}
    # An unknown cluster must not replace a known one.
    return told | ({_SYSTEMID: schema.systemid} if schema.systemid else {})


def drop_call(target: LakeTable) -> str:
    """The call that drops a target: DROP TABLE leaves its positions, and files of earlier sessions."""
    name = target.name.replace('"', '\\"')
    return f'pgrelay.spark.drop(spark, "{name}", using="{target.using}")'


def positions_table(target: LakeTable) -> LakeTable:
    """The table beside a target that has the property; it may not exist."""
    return target.beside(SUFFIX)


def is_positions(table: LakeTable) -> bool:
    """Whether a table that exists is the one beside a target."""
    return table.plain_name().endswith(f"{SUFFIX}`") and _APPLIED in table.properties()


class Positions:
    """What one writer knows of a target's positions: `applied`, and that of the target's schema."""

    def __init__(self, target: LakeTable, schema: TableSchema) -> None:
        self.applied = Applied(schema.topic)
        self.systemid = schema.systemid
        self._target = target
        self._beside = positions_table(target)
        self._schema_position: Position | None = None
        self._tells_cluster = True  # whether the target names its cluster; a registry's schemas do not
        self._writer = uuid4().hex
        self._kept: str | None = None  # the property, as this writer last read or wrote it
        self._unkept = False  # an announced commit was found in the target, which `_kept` does not say yet
        self._since: int | None = None  # a version of the target that has all that is applied, if known

    @classmethod
    def read(cls, target: LakeTable, schema: TableSchema) -> "Positions":
        """What is remembered of a target. Raises GapError if it is another cluster's, and SetupError if it
        is another topic's, no target at all, or lost what was applied to it, or the table beside it."""
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
        self._kept = self._property()
        if self._kept is None and not self._target.is_empty():
            raise self._forgotten()
        self.applied.take(self._kept)
        told = parsed(self._kept)
        self._since = told.get(_SINCE)
        self._refuse_undone()
        if _NEXT in told:
            self._unkept = self._is_made(told[_NEXT], told[_SINCE])
            if self._unkept:
                self.applied.take(told[_NEXT])
        elif _WRITER not in told and not all(
            any(c.key for c in version.columns) for version in schema.versions
        ):
            # An earlier release wrote it, without announcing commits. What has a key now may have had none
            # in an earlier version.
            for mark in self._target.marks()[0]:
                self.applied.take(mark)

    def _is_made(self, mark: str, since: int) -> bool:
        """Whether the target has an announced commit. Raises SetupError if its log begins later."""
        made, whole = self._target.marks(since)
        if mark in made:
            return True
        if not whole:
            raise SetupError(
                f"{self.applied.topic}: the mirror ended while it wrote to {self._target.name}, at LSN "
                f"{self._lsn}, and the commits of that time are gone, so nothing shows whether the "
                "batch was written, and it must not be written twice: fill the target again, with a new "
                f"checkpoint, after {drop_call(self._target)}"
            )
        return False

    def _read_cluster(self, systemid: str) -> None:
        self._tells_cluster = bool(systemid)
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
        # target's: a mirror that is killed before it writes its own positions would find these, and skip its
        # records.
        self._keep()
        self._target.create(columns, target_properties(schema))
        self._schema_position = schema.latest.position

    def replace_target(self, columns: StructType, schema: TableSchema) -> None:
        """Give the target other columns and no rows: to a mirror that is killed right after, that is no loss.

        Raises PgrelayError if another writer has changed the positions.
        """
        self._refuse_overtaken()
        self._since = None
        self._keep()
        self._refuse_overtaken()
        self._target.replace(columns, target_properties(schema))

    def note_schema(self, schema: TableSchema) -> None:
        """Note that the target has the columns of the schema's last version."""
        self._target.set_properties(target_properties(schema))
        self._schema_position = schema.latest.position

    def note_cluster(self) -> None:
        """Note the cluster in a target that was created from a schema without one."""
        if self.systemid and not self._tells_cluster:
            self._target.set_properties({_SYSTEMID: self.systemid})
        self._tells_cluster = True

    def refuse_other_writer(self) -> None:
        """Raise PgrelayError if another writer has changed the positions since this one last read or wrote
        them.

        That is a SetupError if they were dropped, or the target was put back to an earlier version. The other
        may have deleted rows that this one's write would bring back.
        """
        if self.has_target:
            self._refuse_overtaken()
            self._refuse_undone()
        elif self._target.exists():
            raise PgrelayError(
                f"{self.applied.topic}: another mirror has created {self._target.name}: {_END_ONE}"
            )

    @contextmanager
    def announced(self, commit: Applied) -> Iterator[None]:
        """Note beside the target what the block's commit leads to, and mark the commit with it.

        For a commit that must not be made twice. A mirror that is killed then finds out by the mark whether
        it was made, however many commits of others follow, as long as the target's log has it. Raises
        PgrelayError if another writer did so just now: of two announcements only one stays.
        """
        mark = commit.mark()
        self._keep(**{_NEXT: mark})
        self._refuse_overtaken()
        with self._target.marking(mark):
            yield

    def write(self, batch: Applied) -> None:
        """Remember what a batch led to, after its changes were written.

        Raises PgrelayError if another writer did so meanwhile. That is a SetupError if the other got further,
        or if this one's commit was announced: its rows may have been written after the other's. Also if the
        positions were dropped.
        """
        self.applied.add(batch)
        # A commit that was in doubt must not be so again when the log no longer has it.
        if not (batch.by_partition or self._unkept):
            return
        if (other := self._overtaking()) is not None:
            told = self._told_of(other)
            if not (_NEXT in parsed(self._kept) or other.is_beyond(self.applied)):
                raise PgrelayError(f"{told}: {_END_ONE}")
            raise SetupError(
                f"{told}, and both wrote just now, so that deleted rows may be back, or rows without a key "
                f"be added or deleted twice: {_END_ONE}, and fill the target again, with a new checkpoint, "
                f"after {drop_call(self._target)}"
            )
        self._since = self._target.version()
        self._keep()

    def _forgotten(self) -> SetupError:
        """The error for a target without the table beside it: repetitions would restore deleted rows."""
        return SetupError(
            f"{self.applied.topic}: {self._target.name} has rows, but {self._beside.name}, where the mirror "
            "remembers what is applied to it, does not exist: if the target was renamed, rename that table "
            f"too; if it was dropped, call {drop_call(self._target)}, and {_FILL_AGAIN}"
        )

    def dropped(self) -> SetupError:
        """The error for a target, or the table beside it, that is gone although a mirror has written it."""
        there, beside = self._target.exists(), self._beside.exists()
        gone = self._beside.name if there else self._target.name
        first = f"call {drop_call(self._target)}, and " if there or beside else ""
        return SetupError(
            f"{self.applied.topic}: {gone} was dropped while the mirror ran: {first}{_FILL_AGAIN}"
        )

    def _overtaking(self) -> Applied | None:
        """What another writer has applied, if one has changed the property. SetupError if it is gone."""
        if (kept := self._property()) == self._kept:
            return None
        if kept is None:
            raise self.dropped()
        other = Applied(self.applied.topic)
        other.take(kept)
        return other

    def _told_of(self, other: Applied) -> str:
        return (
            f"{self.applied.topic}: another mirror writes to {self._target.name} and has it at LSN "
            f"{format_lsn(other.highest_lsn)}, this one at {self._lsn}"
        )

    def _refuse_overtaken(self) -> None:
        if (other := self._overtaking()) is not None:
            raise PgrelayError(f"{self._told_of(other)}: {_END_ONE}")

    def _refuse_undone(self) -> None:
        """Raise SetupError if the target lost what is remembered as applied, which would be skipped for
        ever."""
        version = self._target.version()
        if self._since not in (None, version) and self._target.was_undone(self._since):
            raise SetupError(
                f"{self.applied.topic}: {self._target.name} was replaced or put back to an earlier version, "
                f"and lacks what the mirror had applied to it, up to LSN {self._lsn}: put it back, by "
                f"{self._target.way_back(self._since)}, or fill it again, with a new checkpoint, after "
                f"{drop_call(self._target)}"
            )
        self._since = version

    @property
    def _lsn(self) -> str:
        return format_lsn(self.applied.highest_lsn)

    def _property(self) -> str | None:
        try:
            return self._beside.properties().get(_APPLIED)
        except AnalysisException:
            # Not asked before: twice a batch, that costs Delta as much as the properties do.
            if self._beside.exists():
                raise
            return None

    def _keep(self, **more: Any) -> None:
        is_new = self._kept is None and not self._beside.exists()
        self._kept = self.applied.mark(**{_WRITER: self._writer, _SINCE: self._since}, **more)
        self._unkept = False
        told = {_APPLIED: self._kept}
        if is_new:
            # If another writer creates it right now, theirs stays, and the next check finds it.
            self._beside.create(NO_ROWS, told)
        else:
            self._beside.set_properties(told)
