"""What of each partition is in a target already, kept in a property of a table beside it.

A relay that was killed writes some records again. Inside a partition positions only rise but for those, so
what is not above the highest position applied is a repetition. A row that a delete took out of the target has
no position of its own any more: without this memory a repeated create would bring it back.

The table has no rows. To read one that was just written Delta needs six jobs, a second on a small machine;
and each that is replaced leaves a file behind.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from pgrelay.errors import GapError, PgrelayError, SetupError
from pgrelay.lsn import format_lsn
from pgrelay.spark.lake.tables import LakeTable
from pgrelay.spark.schemas.schema import Position, TableSchema

SUFFIX: Final = "__positions"

# Properties of a target: the topic and the cluster that its rows are of, and the position of the schema that
# it has.
_TOPIC: Final = "pgrelay.topic"
_SYSTEMID: Final = "pgrelay.systemid"
_SCHEMA: Final = "pgrelay.schema"

# The property beside it: a `mark_of` all that is applied, the writer that says so, and before a commit that
# is not to be made twice, its mark and the version that it follows.
_APPLIED: Final = "pgrelay.applied"
_WRITER: Final = "writer"
_NEXT: Final = "next"
_SINCE: Final = "since"
_NO_ROWS: Final = StructType().add("topic", StringType())

_START: Final[Position] = (0, 0)

_END_ONE: Final = "end one of the two, and start the other again"


@dataclass
class Positions:
    """Of one target: what is applied of each partition, by the schema as of which position.

    `schema_position` is None where there is no target yet.
    """

    topic: str
    systemid: str
    schema_position: Position | None = None
    applied: dict[int, Position] = field(default_factory=dict)
    truncated: Position | None = None  # of the last truncate, which other partitions may not have come to
    tells_cluster: bool = True  # whether the target does; a registry's schemas do not
    kept: str | None = None  # the property beside it, as this writer read or wrote it last
    writer: str = field(default_factory=lambda: uuid4().hex)

    def advance(self, partition: int, position: Position) -> None:
        self.applied[partition] = max(position, self.applied.get(partition, position))

    def truncate(self, position: Position) -> None:
        self.truncated = max(position, self.truncated or position)

    def is_beyond(self, other: "Positions") -> bool:
        """Whether the target got further, in a partition or by a truncate, than by another."""
        if (self.truncated or _START) > (other.truncated or _START):
            return True
        return any(at > other.applied.get(partition, _START) for partition, at in self.applied.items())

    def is_new(self, *, truncated: bool = True) -> Expression:
        """Whether a change, given by its columns partition, commit_lsn and seq, is not applied yet.

        Not `truncated`: nor is one that a truncate made void, in whatever partition.
        """
        void = None if truncated else self.truncated
        if not self.applied:
            return F.lit(True)
        # In a map, which compiled plans refer to: for numbers in them each batch would be compiled anew.
        applied = F.create_map(
            *(
                part
                for partition, position in self.applied.items()
                for lsn, seq in [max(position, void or position)]
                for part in (F.lit(partition), _position(F.lit(lsn), F.lit(seq)))
            )
        )
        last = F.try_element_at(applied, F.col("partition"))
        if void is not None:
            last = F.coalesce(last, _position(F.lit(void[0]), F.lit(void[1])))
        # What can't be read has no position, and must not pass for applied.
        unread = F.col("commit_lsn").isNull() | F.col("seq").isNull()
        return last.isNull() | unread | (_position(F.col("commit_lsn"), F.col("seq")) > last)


def _position(lsn: Expression, seq: Expression) -> Expression:
    return F.struct(lsn.cast("bigint").alias("commit_lsn"), seq.cast("bigint").alias("seq"))


def birth_properties(schema: TableSchema) -> dict[str, str]:
    """The properties of a target that has the schema's last version."""
    lsn, seq = schema.latest.position
    told = {_TOPIC: schema.topic, _SCHEMA: f"{lsn}/{seq}"}
    # One that is not known must not take the place of one that is.
    return told | ({_SYSTEMID: schema.systemid} if schema.systemid else {})


def _refuse_other(topic: str | None, target: LakeTable, ours: str) -> None:
    # Positions are remembered of one topic only: rows that the other deleted would come back.
    if topic not in (None, ours):
        raise SetupError(
            f"{target.name} has the rows of {topic}: name another target for {ours}, or take it away by "
            f"{_drop(target)}"
        )


def _drop(target: LakeTable) -> str:
    """The call that takes a target away: DROP TABLE leaves its positions, and files of earlier sessions."""
    name = target.name.replace('"', '\\"')
    return f'pgrelay.spark.drop(spark, "{name}", using="{target.using}")'


def read_positions(target: LakeTable, schema: TableSchema) -> Positions:
    """What is remembered of a target. Raises GapError where it is another cluster's, or SetupError where it
    is another topic's or no target at all."""
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
    if _NEXT in told:
        if _is_made(target, positions, told):
            _take(told[_NEXT], positions)
    elif _WRITER not in told and not all(any(c.key for c in version.columns) for version in schema.versions):
        # Of an earlier release, which wrote nothing before such a commit; or what was beside it is gone. It
        # may have been at a version of before the table had a key.
        for mark in target.marks()[0]:
            _take(mark, positions)
    systemid = properties.get(_SYSTEMID, "")
    positions.tells_cluster = bool(systemid)
    if systemid and schema.systemid and systemid != schema.systemid:
        raise GapError(
            f"{schema.topic}: written by Postgres cluster {schema.systemid}, but {target.name} holds rows of "
            f"cluster {systemid} up to LSN {_highest(positions)}, and their LSNs do not compare. Start "
            f"again: a new topic prefix and checkpoint, after {_drop(target)}"
        )
    return positions


def mark_of(topic: str, highest: dict[int, Position], truncated: Position | None = None) -> str:
    """What a commit is marked with that is not to be made twice: where it leads to."""
    applied = [[partition, *at] for partition, at in highest.items()]
    return json.dumps({"topic": topic, "applied": applied, "truncated": truncated})


def _parsed(mark: str | None) -> dict[str, Any]:
    try:
        told = {} if mark is None else json.loads(mark)
    except ValueError:
        return {}  # of somebody's own commit
    return told if isinstance(told, dict) else {}


def _take(mark: str | None, positions: Positions) -> None:
    told = _parsed(mark)
    # Another table's commit, made meanwhile, may have marked this one's.
    if told.get("topic") == positions.topic:
        for partition, lsn, seq in told["applied"]:
            positions.advance(partition, (lsn, seq))
        if told.get("truncated"):
            lsn, seq = told["truncated"]
            positions.truncate((lsn, seq))


def _is_made(target: LakeTable, positions: Positions, told: dict[str, Any]) -> bool:
    """Whether the target has the commit that was announced. Raises SetupError where nothing tells."""
    marks, whole = target.marks(told[_SINCE])
    if told[_NEXT] in marks:
        return True
    if not whole:
        raise SetupError(
            f"{positions.topic}: the mirror ended while it wrote to {target.name}, at LSN "
            f"{_highest(positions)}, and the commits of then are not told of any more, so that nobody knows "
            "whether that batch is in it, which must not be written twice; fill the target anew, from a new "
            f"checkpoint, after {_drop(target)}"
        )
    return False


def tell_cluster(target: LakeTable, positions: Positions) -> None:
    """Let a target tell its cluster that was made by a schema which did not know it."""
    if positions.systemid and not positions.tells_cluster:
        target.set_properties({_SYSTEMID: positions.systemid})
    positions.tells_cluster = True


def forget_earlier(target: LakeTable, positions: Positions) -> None:
    """Forget what DROP TABLE has left of an earlier target, before the new one is made.

    A mirror that is killed before it has remembered anything would find that, and pass its records over.
    """
    if target.beside(SUFFIX).exists():
        _keep(target, positions)


def refuse_other_writer(target: LakeTable, positions: Positions) -> None:
    """Raise PgrelayError where another has written to the target since this one read or wrote what is kept.

    It may have deleted rows that what this one is about to write would bring back.
    """
    if positions.schema_position is None:
        if target.exists():
            raise PgrelayError(f"{positions.topic}: another mirror has made {target.name}; {_END_ONE}")
    elif (kept := _kept(target)) != positions.kept:
        raise PgrelayError(f"{_other_writer(target, positions, kept)}; {_END_ONE}")


def announce(target: LakeTable, positions: Positions, mark: str) -> None:
    """Say beside the target which commit comes next, of those that are not to be made twice.

    A mirror that is killed behind it finds by the mark whether it was made, however many commits of others,
    and however long, it comes back after.
    """
    _keep(target, positions, {_NEXT: mark, _SINCE: target.version()})


def write_positions(target: LakeTable, positions: Positions) -> None:
    """Remember them, after what they tell of was written.

    Raises PgrelayError where another wrote meanwhile. That is a SetupError where it got further than this
    one, or the commit was announced, as what this one wrote may have come behind what the other did.
    """
    if (kept := _kept(target)) != positions.kept:
        told = _other_writer(target, positions, kept)
        if not (_NEXT in _parsed(positions.kept) or _of(kept, positions.topic).is_beyond(positions)):
            raise PgrelayError(f"{told}; {_END_ONE}")
        raise SetupError(
            f"{told}, which wrote to it just now, so that rows may be back that were deleted, or without a "
            f"key deleted twice; {_END_ONE}, and fill the target anew, from a new checkpoint, after "
            f"{_drop(target)}"
        )
    _keep(target, positions)


def _other_writer(target: LakeTable, positions: Positions, kept: str | None) -> str:
    return (
        f"{positions.topic}: another mirror writes to {target.name}, which is at LSN "
        f"{_highest(_of(kept, positions.topic))} by that one and at {_highest(positions)} by this one"
    )


def _of(kept: str | None, topic: str) -> Positions:
    positions = Positions(topic, "")
    _take(kept, positions)
    return positions


def _highest(positions: Positions) -> str:
    return format_lsn(max((lsn for lsn, _ in positions.applied.values()), default=0))


def _kept(target: LakeTable) -> str | None:
    beside = target.beside(SUFFIX)
    return beside.properties().get(_APPLIED) if beside.exists() else None


def _keep(target: LakeTable, positions: Positions, more: Mapping[str, Any] = MappingProxyType({})) -> None:
    beside = target.beside(SUFFIX)
    if positions.kept is None:
        beside.create(_NO_ROWS)
    mark = json.loads(mark_of(positions.topic, positions.applied, positions.truncated))
    positions.kept = json.dumps({**mark, _WRITER: positions.writer, **more})
    beside.set_properties({_APPLIED: positions.kept})
