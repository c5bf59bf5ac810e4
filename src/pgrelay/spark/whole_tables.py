"""The two tables of a whole-transaction mirror's own: what it holds back, and up to which commit it is whole.

They are named by the query, which is the same however its targets change; and each target tells by a property
whose it is.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType

from pgrelay.errors import SetupError
from pgrelay.lsn import format_lsn
from pgrelay.spark.lake import LakeTable, Using, lake_table
from pgrelay.spark.names import literal
from pgrelay.spark.transactions import POSITIONED

# A target's property: the table that tells up to which commit its mirror is whole.
_MIRROR: Final = "pgrelay.mirror"
# And of the mirror's own tables: the relay's prefix, the topics that are read as far as the others, and the
# last commit that was applied, where no position tells of it.
_PREFIX: Final = "pgrelay.prefix"
_TOPICS: Final = "pgrelay.topics"
_UNTIL: Final = "pgrelay.until"

_POSITION: Final = (
    StructType().add("target", StringType()).add("version", LongType()).add("commit_lsn", LongType())
)


@dataclass(frozen=True, slots=True)
class MirrorPosition:
    """The lake is exactly Postgres as of `commit_lsn`: every transaction up to it, whole, and nothing later.

    `versions`: of each target, the version that this is true of, for `VERSION AS OF`; the tables' last ones,
    unless the mirror is at its next batch. `str()` writes the LSN as Postgres does.
    """

    commit_lsn: int
    versions: dict[str, int]

    def __str__(self) -> str:
        return format_lsn(self.commit_lsn)


def mirror_position(spark: SparkSession, target: str, *, using: Using = "delta") -> MirrorPosition | None:
    """Where the mirror of whole transactions stands that `target` is one of.

    None before its first batch, and where it began anew and is not as far as its targets yet. While a table
    that was added catches up, it is the position of before. Raises SetupError where the target is no part of
    such a mirror.
    """
    table = lake_table(spark, target, using)
    named = table.properties().get(_MIRROR) if table.exists() else None
    if named is None:
        raise SetupError(f"{target} is no target of a mirror(..., whole_transactions=True)")
    return _read(LakeTable(spark, named, using))


class WholeTables:
    """`<prefix>__position_<id>` and `<prefix>__held_<id>`, in the namespace of the first target there was."""

    def __init__(self, position: LakeTable, held: LakeTable, prefix: str) -> None:
        self._position = position
        self._held = held
        self._prefix = prefix

    @classmethod
    def of(
        cls, spark: SparkSession, prefix: str, query: str, targets: Mapping[str, str], using: Using
    ) -> "WholeTables":
        """Those of a query, wherever they are; they may not be there yet. `targets` by topic."""
        spaces = [lake_table(spark, target, using).name.rpartition("`.`")[0] for target in targets.values()]

        def table(space: str, what: str) -> LakeTable:
            own = f"`{prefix}__{what}_{query[:8]}`"
            return LakeTable(spark, f"{space}`.{own}" if space else own, using)

        there = (space for space in dict.fromkeys(spaces) if table(space, "position").exists())
        space = next(there, spaces[0])
        return cls(table(space, "position"), table(space, "held"), prefix)

    def begin(self, topics: Iterable[str], batch: int) -> None:
        """Make the tables. Raises SetupError where they are gone, and what was held back with them."""
        if self._position.exists():
            return
        if batch > 0:
            raise SetupError(
                f"{self._position.name} is not there, where the mirror remembers what it holds back: take a "
                "new checkpoint, by which all is read again, and what the targets have is passed over"
            )
        self._held.create(POSITIONED, {_PREFIX: self._prefix})
        self._position.create(_POSITION, {_PREFIX: self._prefix, _TOPICS: _listed(topics)})

    def position(self) -> MirrorPosition | None:
        return _read(self._position)

    def until(self) -> int:
        """The last commit that was applied; the position is of before while a target is not equal yet."""
        position = self.position()
        known = 0 if position is None else position.commit_lsn
        return max(known, int(self._position.properties().get(_UNTIL, 0)))

    def set_until(self, until: int) -> None:
        self._position.set_properties({_UNTIL: str(until)})

    def topics(self) -> set[str]:
        """Those that are read as far as the others, from their beginning or since they caught up."""
        return set(json.loads(self._position.properties()[_TOPICS]))

    def set_topics(self, topics: Iterable[str]) -> None:
        self._position.set_properties({_TOPICS: _listed(topics)})

    def claim(self, targets: Iterable[LakeTable], *, anew: bool) -> None:
        """Mark the targets as this mirror's. Raises SetupError where one is another's, unless this one begins
        `anew`, in that one's place."""
        for table in targets:
            mirror = table.properties().get(_MIRROR)
            if mirror == self._position.name:
                continue
            if mirror is not None and not anew:
                raise SetupError(
                    f"{table.name} is kept whole by another mirror, that of {mirror}: end one of the two; "
                    f"where that one is gone, ALTER TABLE {table.name} UNSET TBLPROPERTIES ('{_MIRROR}')"
                )
            table.set_properties({_MIRROR: self._position.name})

    def remember(self, until: int, targets: Mapping[str, LakeTable]) -> None:
        """Record the commit, and the version that each target has at it."""
        rows = [f"({literal(name)}, {table.version()}L, {until}L)" for name, table in targets.items()]
        if rows:
            self._position.spark.sql(f"INSERT OVERWRITE {self._position.name} VALUES {', '.join(rows)}")

    def held(self) -> DataFrame:
        return self._held.rows()

    def hold(self, new: DataFrame, until: int) -> None:
        """Keep what is later than `until`, of this batch and of those before: rows, and ends without rows."""
        if not self.held().where(F.col("commit_lsn") <= until).isEmpty():
            self._held.run(f"DELETE FROM {self._held.name} WHERE commit_lsn <= {until}")
        later = new.where(F.col("commit_lsn") > until)
        if later.isEmpty():
            return
        self._held.run(
            f"MERGE INTO {self._held.name} t USING {{later}} s"
            " ON t.topic = s.topic AND t.partition = s.partition AND t.offset = s.offset"
            " WHEN NOT MATCHED THEN INSERT *",
            later=later,
        )


def _listed(topics: Iterable[str]) -> str:
    return json.dumps(sorted(topics))


def _read(position: LakeTable) -> MirrorPosition | None:
    rows = position.rows().collect() if position.exists() else []
    if not rows:
        return None
    return MirrorPosition(rows[0]["commit_lsn"], {row["target"]: row["version"] for row in rows})
