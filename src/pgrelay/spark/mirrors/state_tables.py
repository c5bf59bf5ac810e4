"""A whole-transaction mirror's two tables of state: what it holds back, and up to which commit it is whole.

They are named after the query, whose id stays the same when its targets change. A property of each target
names the mirror that it belongs to.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from pgrelay.errors import PgrelayError, SetupError
from pgrelay.lsn import format_lsn
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.tables import PROPERTIES_ONLY, LakeTable, Using
from pgrelay.spark.mirrors.held_records import HeldRecords
from pgrelay.spark.mirrors.query import QuerySource
from pgrelay.spark.mirrors.transactions import transaction_topic
from pgrelay.spark.records.record_positions import POSITIONED

# A target's property: the `__position` table of its mirror.
_MIRROR: Final = "pgrelay.mirror"
# Properties of the tables: the relay's prefix, the topics that are read as far as the others, the last commit
# that was applied, and the last commit at which all targets equalled Postgres, with their versions.
_PREFIX: Final = "pgrelay.prefix"
_TOPICS: Final = "pgrelay.topics"
_UNTIL: Final = "pgrelay.until"
_POSITION: Final = "pgrelay.position"


@dataclass(frozen=True, slots=True)
class MirrorPosition:
    """The lake is exactly Postgres as of `commit_lsn`: every transaction up to it, whole, and nothing later.

    `versions`: the version of each target that this holds for, to use with `VERSION AS OF`. They are the
    tables' last ones, unless the mirror is in its next batch, or a table was compacted since: the rows are
    the same, but a purge may have taken the version. `str()` writes the LSN as Postgres does.
    """

    commit_lsn: int
    versions: dict[str, int]

    def __str__(self) -> str:
        return format_lsn(self.commit_lsn)


def mirror_position(spark: SparkSession, target: str, *, using: Using = "delta") -> MirrorPosition | None:
    """The position of the mirror of whole transactions that `target` belongs to.

    None before its first batch, and while a mirror with a new checkpoint is not as far as its targets. While
    an added table catches up, the position stays as before. Raises SetupError if the target belongs to no
    such mirror.
    """
    table = lake_table(spark, target, using)
    if not table.exists():
        other = "iceberg" if using == "delta" else "delta"
        raise SetupError(f"{target}: no such {using} table; correct the name, or pass using={other!r}")
    named = table.properties().get(_MIRROR)
    if named is None:
        raise SetupError(f"{target} is not a target of a mirror(..., whole_transactions=True)")
    state = lake_table(spark, named, using)
    return _position_of(state.properties()) if state.exists() else None


class StateTables:
    """`<prefix>__position_<id>` and `<prefix>__held_<id>`, in the namespace of the original first target.

    `held` is the second one. Only one query writes them, so the first one's properties are read only once.
    """

    def __init__(self, query: str, position: LakeTable, held: HeldRecords, prefix: str) -> None:
        self.query = query  # its id
        self.held = held
        self._table = position
        self._prefix = prefix
        self._properties: dict[str, str] = {}  # the first table's, as last read or set

    @classmethod
    def of(
        cls, spark: SparkSession, prefix: str, query: str, targets: Mapping[str, str], using: Using
    ) -> "StateTables":
        """The tables of a query, in whichever namespace; they may not exist yet. `targets` by topic."""
        found = [lake_table(spark, target, using) for target in targets.values()]
        # A table's name allows fewer characters than a topic's.
        plain = re.sub(r"\W", "_", prefix, flags=re.ASCII)
        position, held = (f"{plain}__{what}_{query[:8]}" for what in ("position", "held"))
        by_namespace = {table.namespace: table for table in found}
        having = (table for table in by_namespace.values() if table.internal_table(position).exists())
        target = next(having, found[0])
        return cls(query, target.internal_table(position), HeldRecords(target.internal_table(held)), prefix)

    def create(self, topics: Iterable[str], batch: int) -> None:
        """Create the tables. Raises SetupError if one is gone, and with it the rows held back."""
        if self._load():
            return
        if batch > 0:
            raise _missing_error(self._table)
        self.held.table.create(POSITIONED, {_PREFIX: self._prefix})
        self._table.create(PROPERTIES_ONLY, {_PREFIX: self._prefix, _TOPICS: _topics_json(topics)})
        self._properties = self._table.properties()

    def refuse_pending_rows(self) -> None:
        """Raise SetupError if rows are held back."""
        if self._load() and not self.held.after(self.until).where("seq IS NOT NULL").isEmpty():
            raise SetupError(
                f"{self.held.table.name} holds rows back for this checkpoint's mirror of whole transactions: "
                "go on with whole_transactions, or take a new checkpoint, which reads everything again, and "
                "skips what the targets already have"
            )

    def _load(self) -> bool:
        """Read the first table; False if it does not exist. Raises SetupError if only the second does not."""
        if not self._table.exists():
            return False
        if not self.held.table.exists():
            raise _missing_error(self.held.table)
        self._properties = self._table.properties()
        return True

    @property
    def position(self) -> MirrorPosition | None:
        return _position_of(self._properties)

    @property
    def until(self) -> int:
        """The last commit that was applied; the position is earlier until all targets are equal."""
        return int(self._properties.get(_UNTIL, 0))

    @property
    def topics(self) -> set[str]:
        """The topics that are read as far as the others, from the start or since they caught up."""
        return set(json.loads(self._properties[_TOPICS]))

    def set_until(self, until: int) -> None:
        self._set({_UNTIL: str(until)})

    def set_topics(self, topics: Iterable[str]) -> None:
        self._set({_TOPICS: _topics_json(topics)})

    def set_position(self, until: int, targets: Mapping[str, LakeTable]) -> None:
        """Record the commit, and the version that each target has at it."""
        versions = {name: table.version() for name, table in targets.items()}
        if versions:
            position = json.dumps({"commit_lsn": until, "versions": versions})
            self._set({_UNTIL: str(until), _POSITION: position})

    def _set(self, properties: Mapping[str, str]) -> None:
        """Set properties. Raises PgrelayError if another driver of the query did so meanwhile."""
        now = self._table.properties()
        if any(now.get(name) != self._properties.get(name) for name in (_UNTIL, _POSITION, _TOPICS)):
            raise PgrelayError(
                f"{self._table.name}: another mirror of this checkpoint writes to it, as does this one "
                f"from LSN {format_lsn(self.until)} on: end one of the two, and start the other again"
            )
        self._table.set_properties(properties)
        self._properties |= properties

    def claim(self, targets: Mapping[str, LakeTable], *, take_over: bool) -> dict[str, LakeTable]:
        """Mark the targets that exist as this mirror's, and return them.

        Raises SetupError if one is another mirror's, unless this one is to `take_over`.
        """
        existing = {name: table for name, table in targets.items() if table.exists()}
        for table in existing.values():
            mirror = table.properties().get(_MIRROR)
            if mirror == self._table.name:
                continue
            if mirror is not None and not take_over:
                raise SetupError(
                    f"{table.name} is kept whole by another mirror, that of {mirror}: end one of the two; "
                    f"if that one is gone, ALTER TABLE {table.name} UNSET TBLPROPERTIES ('{_MIRROR}')"
                )
            table.set_properties({_MIRROR: self._table.name})
        return existing


def refuse_pending_rows(source: QuerySource, prefix: str, tables: Mapping[str, str], using: Using) -> None:
    """Raise SetupError if rows wait for whole transactions, which a mirror without them would never apply."""
    spark, checkpoint = source.session, source.checkpoint
    planned = checkpoint.last_planned_batch()
    if planned is not None and transaction_topic(prefix) in checkpoint.end_offsets(planned):
        StateTables.of(spark, prefix, checkpoint.query_id(), tables, using).refuse_pending_rows()


def _missing_error(table: LakeTable) -> SetupError:
    """The error for a table that no longer exists, although the mirror has written to it."""
    return SetupError(
        f"{table.name}, where the mirror remembers what it holds back, does not exist: take a new "
        "checkpoint, which reads everything again, and skips what the targets already have"
    )


def _topics_json(topics: Iterable[str]) -> str:
    return json.dumps(sorted(topics))


def _position_of(properties: Mapping[str, str]) -> MirrorPosition | None:
    return MirrorPosition(**json.loads(properties[_POSITION])) if _POSITION in properties else None
