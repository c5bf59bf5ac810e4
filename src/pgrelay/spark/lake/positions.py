"""How far each partition is applied to a target, kept in a property of a table beside it.

A relay that was killed writes some records again. Apart from these, positions only rise within a partition,
so a change that is not above the highest applied position is a repetition. A deleted row has no position of
its own in the target any more: without this memory a repeated create would bring it back.

The table has no rows. To read a row that was just written, Delta needs six jobs, a second on a small machine;
and each row that is replaced leaves a file behind.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from pgrelay.errors import GapError, PgrelayError, SetupError
from pgrelay.lsn import format_lsn
from pgrelay.spark.lake.commits import marks, was_undone
from pgrelay.spark.lake.own_tables import OwnTable
from pgrelay.spark.lake.tables import LakeTable
from pgrelay.spark.schemas.schema import Position, TableSchema

SUFFIX: Final = "__positions"

# Properties of a target: the topic and the cluster of its rows, and the position of its schema.
_TOPIC: Final = "pgrelay.topic"
_SYSTEMID: Final = "pgrelay.systemid"
_SCHEMA: Final = "pgrelay.schema"

# The property of the table beside it: the `mark_of` all that is applied, the writer of the property, and a
# version of the target that has all this. Before a commit that must not be made twice: also its mark.
_APPLIED: Final = "pgrelay.applied"
_WRITER: Final = "writer"
_NEXT: Final = "next"
_SINCE: Final = "since"
_NO_ROWS: Final = StructType().add("topic", StringType())

_START: Final[Position] = (0, 0)

_END_ONE: Final = "end one of the two, and start the other again"


@dataclass
class Positions:
    """The last position of each partition that is applied to a target, and the position of its schema.

    `schema_position` is None if there is no target yet.
    """

    topic: str
    systemid: str
    schema_position: Position | None = None
    applied: dict[int, Position] = field(default_factory=dict)
    truncated: Position | None = None  # of the last truncate; other partitions may not be as far
    tells_cluster: bool = True  # whether the target names its cluster; a registry's schemas do not
    kept: str | None = None  # the property of the table beside it, as this writer last read or wrote it
    writer: str = field(default_factory=lambda: uuid4().hex)
    unkept: bool = False  # an announced commit was found in the target, which `kept` does not say yet
    since: int | None = None  # a version of the target that has all that is applied, if one is known

    def advance(self, partition: int, position: Position) -> None:
        self.applied[partition] = max(position, self.applied.get(partition, position))

    def truncate(self, position: Position) -> None:
        self.truncated = max(position, self.truncated or position)

    def is_beyond(self, other: "Positions") -> bool:
        """Whether these are further than the others, in some partition or by a truncate."""
        if (self.truncated or _START) > (other.truncated or _START):
            return True
        return any(at > other.applied.get(partition, _START) for partition, at in self.applied.items())

    def is_new(self, *, truncated: bool = True) -> Expression:
        """Whether a change, given by its columns partition, commit_lsn and seq, is not applied yet.

        Without `truncated`, changes from before the last truncate count as applied, in every partition.
        """
        void = None if truncated else self.truncated
        if not self.applied:
            return F.lit(True)
        # Compiled plans refer to a map, but contain plain numbers: each batch would be compiled again.
        applied = ", ".join(
            f"{partition}, {_position(max(position, void or position))}"
            for partition, position in self.applied.items()
        )
        last = f"try_element_at(map({applied}), partition)"
        if void is not None:
            last = f"coalesce({last}, {_position(void)})"
        # A record that can't be read has no position, and must not count as applied.
        unread = "commit_lsn IS NULL OR seq IS NULL"
        return F.expr(f"{last} IS NULL OR {unread} OR struct(commit_lsn, seq) > {last}")


def _position(position: Position) -> str:
    lsn, seq = position
    return f"struct({lsn}L AS commit_lsn, {seq}L AS seq)"


def birth_properties(schema: TableSchema) -> dict[str, str]:
    """The properties of a target that has the schema's last version."""
    lsn, seq = schema.latest.position
    told = {_TOPIC: schema.topic, _SCHEMA: f"{lsn}/{seq}"}
    # An unknown cluster must not replace a known one.
    return told | ({_SYSTEMID: schema.systemid} if schema.systemid else {})


def _refuse_other(topic: str | None, target: LakeTable, ours: str) -> None:
    # Positions are kept for one topic only: rows that the other deleted would come back.
    if topic not in (None, ours):
        raise SetupError(
            f"{target.name} has the rows of {topic}: name another target for {ours}, or drop it with "
            f"{drop_call(target)}"
        )


def drop_call(target: LakeTable) -> str:
    """The call that drops a target: DROP TABLE leaves its positions, and files of earlier sessions."""
    name = target.name.replace('"', '\\"')
    return f'pgrelay.spark.drop(spark, "{name}", using="{target.using}")'


def positions_table(target: LakeTable) -> OwnTable:
    """The table beside a target that has the property; it may not exist."""
    return OwnTable.beside(target, SUFFIX)


def read_positions(target: LakeTable, schema: TableSchema) -> Positions:
    """What is remembered of a target. Raises GapError if it is another cluster's, and SetupError if it is
    another topic's or no target at all."""
    positions = Positions(schema.topic, schema.systemid)
    if not target.exists():
        return positions
    properties = target.properties()
    if _SCHEMA not in properties:
        raise SetupError(f"{target.name} was not made by pgrelay: name another target, or drop it")
    _refuse_other(properties.get(_TOPIC), target, schema.topic)
    lsn, seq = properties[_SCHEMA].split("/")
    positions.schema_position = (int(lsn), int(seq))
    positions.kept = _kept(target)
    _take(positions.kept, positions)
    told = _parsed(positions.kept)
    positions.since = told.get(_SINCE)
    _refuse_undone(target, positions)
    if _NEXT in told:
        positions.unkept = _is_made(target, positions, told)
        if positions.unkept:
            _take(told[_NEXT], positions)
    elif _WRITER not in told and not all(any(c.key for c in version.columns) for version in schema.versions):
        # An earlier release wrote it, without announcing commits, or the table beside it is gone. What has a
        # key now may have had none in an earlier version.
        for mark in marks(target)[0]:
            _take(mark, positions)
    systemid = properties.get(_SYSTEMID, "")
    positions.tells_cluster = bool(systemid)
    if systemid and schema.systemid and systemid != schema.systemid:
        raise GapError(
            f"{schema.topic}: written by Postgres cluster {schema.systemid}, but {target.name} holds rows of "
            f"cluster {systemid} up to LSN {_highest(positions)}, and their LSNs can't be compared: start "
            f"again with a new topic prefix and a new checkpoint, after {drop_call(target)}"
        )
    return positions


def mark_of(topic: str, highest: dict[int, Position], truncated: Position | None = None) -> str:
    """The mark of a commit that must not be made twice: the positions that it leads to."""
    applied = [[partition, *at] for partition, at in highest.items()]
    return json.dumps({"topic": topic, "applied": applied, "truncated": truncated})


def _parsed(mark: str | None) -> dict[str, Any]:
    try:
        told = {} if mark is None else json.loads(mark)
    except ValueError:
        return {}  # the mark of somebody else's commit
    return told if isinstance(told, dict) else {}


def _take(mark: str | None, positions: Positions) -> None:
    told = _parsed(mark)
    # Marks are a setting of the session: while another table's was set, this table's commits carried it.
    if told.get("topic") == positions.topic:
        for partition, lsn, seq in told["applied"]:
            positions.advance(partition, (lsn, seq))
        if told.get("truncated"):
            lsn, seq = told["truncated"]
            positions.truncate((lsn, seq))


def _is_made(target: LakeTable, positions: Positions, told: dict[str, Any]) -> bool:
    """Whether the target has the announced commit. Raises SetupError if its log does not go back as far."""
    made, whole = marks(target, told[_SINCE])
    if told[_NEXT] in made:
        return True
    if not whole:
        raise SetupError(
            f"{positions.topic}: the mirror ended while it wrote to {target.name}, at LSN "
            f"{_highest(positions)}, and the commits of that time are gone, so nothing shows whether the "
            "batch was written, and it must not be written twice: fill the target again, with a new "
            f"checkpoint, after {drop_call(target)}"
        )
    return False


def tell_cluster(target: LakeTable, positions: Positions) -> None:
    """Note the cluster in a target that was created from a schema without one."""
    if positions.systemid and not positions.tells_cluster:
        target.set_properties({_SYSTEMID: positions.systemid})
    positions.tells_cluster = True


def forget_earlier(target: LakeTable, positions: Positions) -> None:
    """Forget the positions that DROP TABLE left of an earlier target, before the new one is created.

    A mirror that is killed before it writes its own positions would find these, and skip its records.
    """
    if positions_table(target).exists():
        _keep(target, positions)


def refuse_other_writer(target: LakeTable, positions: Positions) -> None:
    """Raise PgrelayError if another writer has changed the positions since this one last read or wrote them.

    That is a SetupError if they were dropped, or the target was put back to an earlier version. The other may
    have deleted rows that this one's write would bring back.
    """
    if positions.schema_position is None:
        if target.exists():
            raise PgrelayError(f"{positions.topic}: another mirror has created {target.name}: {_END_ONE}")
        return
    _refuse_overtaken(target, positions)
    _refuse_undone(target, positions)


def _refuse_overtaken(target: LakeTable, positions: Positions) -> None:
    if (kept := _kept(target)) != positions.kept:
        if kept is None:
            raise dropped(target, positions)
        raise PgrelayError(f"{_other_writer(target, positions, kept)}: {_END_ONE}")


def _refuse_undone(target: LakeTable, positions: Positions) -> None:
    """Raise SetupError if the target lost what is remembered as applied, which would be skipped for ever."""
    version = target.version()
    if positions.since not in (None, version) and was_undone(target, positions.since):
        raise SetupError(
            f"{positions.topic}: {target.name} was replaced or put back to an earlier version, and lacks "
            f"what the mirror had applied to it, up to LSN {_highest(positions)}: put it back, by "
            f"{target.way_back(positions.since)}, or fill it again, with a new checkpoint, after "
            f"{drop_call(target)}"
        )
    positions.since = version


def expect_replacement(target: LakeTable, positions: Positions) -> None:
    """Note that the target will be replaced by this mirror, even if it is killed right after.

    Raises PgrelayError if another writer has changed the positions.
    """
    _refuse_overtaken(target, positions)
    positions.since = None
    _keep(target, positions)
    _refuse_overtaken(target, positions)


def announce(target: LakeTable, positions: Positions, mark: str) -> None:
    """Note the next commit beside the target, if it must not be made twice.

    A mirror that is killed then finds out by the mark whether the commit was made, however many commits of
    others follow, as long as the target's log has it. Raises PgrelayError if another writer did so just now:
    of two announcements only one stays.
    """
    _keep(target, positions, {_NEXT: mark})
    _refuse_overtaken(target, positions)


def write_positions(target: LakeTable, positions: Positions) -> None:
    """Remember the positions, after their changes were written.

    Raises PgrelayError if another writer did so meanwhile. That is a SetupError if the other got further, or
    if this one's commit was announced: its rows may have been written after the other's. Also if the
    positions were dropped.
    """
    if (kept := _kept(target)) != positions.kept:
        if kept is None:
            raise dropped(target, positions)
        told = _other_writer(target, positions, kept)
        if not (_NEXT in _parsed(positions.kept) or _of(kept, positions.topic).is_beyond(positions)):
            raise PgrelayError(f"{told}: {_END_ONE}")
        raise SetupError(
            f"{told}, and both wrote just now, so that deleted rows may be back, or rows without a key be "
            f"added or deleted twice: {_END_ONE}, and fill the target again, with a new checkpoint, after "
            f"{drop_call(target)}"
        )
    positions.since = target.version()
    _keep(target, positions)


def dropped(target: LakeTable, positions: Positions) -> SetupError:
    """The error for a target, or the table beside it, that is gone although a mirror has written it."""
    there, beside = target.exists(), positions_table(target)
    gone = beside.name if there else target.name
    first = f"call {drop_call(target)}, and " if there or beside.exists() else ""
    return SetupError(
        f"{positions.topic}: {gone} was dropped while the mirror ran: {first}take a new checkpoint, to fill "
        "the target again from what the topic still holds"
    )


def _other_writer(target: LakeTable, positions: Positions, kept: str | None) -> str:
    return (
        f"{positions.topic}: another mirror writes to {target.name} and has it at LSN "
        f"{_highest(_of(kept, positions.topic))}, this one at {_highest(positions)}"
    )


def _of(kept: str | None, topic: str) -> Positions:
    positions = Positions(topic, "")
    _take(kept, positions)
    return positions


def _highest(positions: Positions) -> str:
    return format_lsn(max((lsn for lsn, _ in positions.applied.values()), default=0))


def _kept(target: LakeTable) -> str | None:
    beside = positions_table(target)
    try:
        return beside.properties().get(_APPLIED)
    except AnalysisException:
        # Not asked before: twice a batch, that costs Delta as much as the properties do.
        if beside.exists():
            raise
        return None


def _keep(target: LakeTable, positions: Positions, more: Mapping[str, Any] = MappingProxyType({})) -> None:
    beside = positions_table(target)
    mark = json.loads(mark_of(positions.topic, positions.applied, positions.truncated))
    is_new = positions.kept is None and not beside.exists()
    positions.kept = json.dumps({**mark, _WRITER: positions.writer, _SINCE: positions.since, **more})
    positions.unkept = False
    told = {_APPLIED: positions.kept}
    if is_new:
        # If another writer creates it right now, theirs stays, and the next check finds it.
        beside.create(_NO_ROWS, told)
    else:
        beside.set_properties(told)
