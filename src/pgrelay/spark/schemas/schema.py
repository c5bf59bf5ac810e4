"""A table's columns over time, as the schema topic describes them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Final, Self

from pyspark.sql.types import StructField, StructType

from pgrelay.errors import SetupError
from pgrelay.lsn import format_lsn
from pgrelay.spark.names import COMMIT_LSN, SEQ
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.renames import Renames, find_renames
from pgrelay.spark.schemas.widening import declared_type, rewrites_values, widens

Position = tuple[int, int]  # (commit_lsn, seq), which orders all changes of a database

UNKNOWN_POSITION: Final[Position] = (0, 0)  # of a version that was not read from the schema topic


@dataclass(frozen=True, slots=True)
class TableVersion:
    """The columns of a table, from a position on."""

    position: Position
    columns: tuple[Column, ...]
    replica_identity: str = "default"  # default, nothing, full or index
    relation: int = 0  # pg_class.oid; 0 if it isn't known

    def repeats(self, earlier: "TableVersion") -> bool:
        """Whether only the position differs: a relay repeats its schemas at every start."""
        return replace(earlier, position=self.position) == self

    @property
    def clash(self) -> str | None:
        """Why Spark can't have a table with these columns, and the cure; None if it can."""
        seen = dict[str, str]()
        for column in self.columns:
            other = seen.setdefault(column.name.lower(), column.name)
            if other is not column.name:
                return f"to Spark, columns {other!r} and {column.name!r} are the same: rename one"
            if column.name.lower() in (COMMIT_LSN, SEQ):
                return f"pgrelay adds a column named {column.name!r} itself: rename it"
            if column.key and "map<" in column.spark_type.simpleString():
                return (
                    f"column {column.name!r} is hstore and part of the key, but Spark can't compare maps: "
                    "read it as text (text_columns, TableSchema.as_text)"
                )
        return None


@dataclass(frozen=True)
class TableSchema:
    """What is known of a table: its topic, and its columns in every version; the last one is in force.

    `systemid` is that of the Postgres cluster; empty if it isn't known. `sharing` names the tables that share
    the topic, if there are several. `taken`: names, in lower case, that the target's format has for columns
    of its own.
    """

    topic: str
    schema: str
    table: str
    versions: tuple[TableVersion, ...]
    systemid: str = ""
    sharing: tuple[str, ...] = ()
    taken: frozenset[str] = frozenset()

    @property
    def latest(self) -> TableVersion:
        return self.versions[-1]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns in force, in table order."""
        return self.latest.columns

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the key's columns; empty for a table without a key."""
        return tuple(column.name for column in self.columns if column.key)

    @property
    def was_full(self) -> bool:
        """Whether the replica identity is or ever was full."""
        return any(version.replica_identity == "full" for version in self.versions)

    @property
    def row_type(self) -> StructType:
        """The type of `before` and `after`."""
        return StructType([StructField(c.name, c.spark_type) for c in self.columns])

    def as_text(self, *names: str) -> Self:
        """The same with these columns read as strings, in the record's own words.

        For values that the exact type can't hold: NaN in numeric(p,s), infinite dates, years BC, arrays of
        several dimensions. A renamed column may be given by any of its names. Raises SetupError if there is
        no such column.
        """
        known = sorted({column.name for version in self.versions for column in version.columns})
        if unknown := [name for name in names if name not in known]:
            raise SetupError(f"{self.topic}: no column {unknown[0]!r}; there are {', '.join(known)}")
        versions = [
            replace(v, columns=tuple(replace(c, text=c.text or c.name in of_v) for c in v.columns))
            for v, of_v in zip(self.versions, self._in_each(names), strict=True)
        ]
        return replace(self, versions=tuple(versions))

    def _in_each(self, names: Iterable[str]) -> list[set[str]]:
        """The names of these columns in each version, with renames followed both ways."""
        found = [set(names) for _ in self.versions]
        for number, step in enumerate(self._steps):
            found[number + 1] |= {now for was, now in step.items() if was in found[number]}
        for number, step in reversed([*enumerate(self._steps)]):
            found[number] |= {was for was, now in step.items() if now in found[number + 1]}
        return found

    @cached_property
    def _changes(self) -> tuple[tuple[TableVersion, TableVersion, Renames], ...]:
        """Each version with the next one, and which columns were renamed between them."""
        pairs = pairwise(self.versions)
        return tuple((was, now, find_renames(was.columns, now.columns)) for was, now in pairs)

    @cached_property
    def _steps(self) -> tuple[dict[str, str], ...]:
        """The names of each version's columns in the next one, by the earlier name; without dropped ones."""
        steps = []
        for was, now, renames in self._changes:
            later_names = {column.name for column in now.columns}
            became = {c.name: renames.by_name.get(c.name, c.name) for c in was.columns}
            steps.append({one: name for one, name in became.items() if name in later_names})
        return tuple(steps)

    @cached_property
    def _steps_back(self) -> tuple[dict[str, str], ...]:
        """The same the other way: the earlier names, by the name in the next version."""
        return tuple({now: was for was, now in step.items()} for step in self._steps)

    def until(self, position: Position) -> Self:
        """The same as of a position: without later versions, except that the first one always stays.

        If Spark can't have the columns of that time, the next version that it can have is the last.
        """
        count = max(sum(version.position <= position for version in self.versions), 1)
        while count < len(self.versions) and self.clash(self.versions[count - 1]):
            count += 1
        return replace(self, versions=self.versions[:count])

    def clash(self, version: TableVersion) -> str | None:
        """Why Spark or the format can't have a table with a version's columns; None if they can."""
        for column in version.columns:
            if column.name.lower() in self.taken:
                return f"the lake format has a column named {column.name!r} itself: rename it"
        return version.clash

    def refuse_clash(self) -> None:
        """Raise SetupError if Spark can't have the columns in force, or tables sharing the topic differ."""
        clash = self.clash(self.latest)
        if clash:
            raise SetupError(f"{self.topic}: {clash}")
        if self.sharing and len({version.columns for version in self.versions}) > 1:
            # A record's position does not tell which table's version it belongs to.
            self.refuse_sharing()

    def refuse_sharing(self) -> None:
        """Raise SetupError if several tables share the topic."""
        if self.sharing:
            raise SetupError(
                f"{self.topic} has the rows of {', '.join(self.sharing)}, which one target can't keep apart: "
                "a TRUNCATE of one would empty it, and rows with the same key would be merged; let "
                "records.routes send each table to a topic of its own, or publish partitions WITH "
                "(publish_via_partition_root), to a new topic"
            )

    def became(self, earlier: TableVersion, later: TableVersion) -> dict[str, str]:
        """The names in a later version of an earlier one's columns, by the earlier names."""
        first, last = self.versions.index(earlier), self.versions.index(later)
        names = {column.name: column.name for column in earlier.columns}
        for step in self._steps[first:last]:
            names = {one: step[name] for one, name in names.items() if name in step}
        return names

    def has_other_key(self, position: Position) -> bool:
        """Whether the version from that position on has another key than the version before it."""
        at = next(number for number, version in enumerate(self.versions) if version.position == position)
        earlier, later = self.versions[at - 1], self.versions[at]
        became = self.became(earlier, later)
        return {became.get(c.name) for c in earlier.columns if c.key} != {
            c.name for c in later.columns if c.key
        }

    def names_now(self) -> list[tuple[Position, dict[str, str | None]]]:
        """The current names of columns that had another one, by that name; None if the column is gone.

        Each map with the position from which it holds, earliest first; the last map is empty.
        """
        to_latest = [{column.name: column.name for column in self.columns}]
        for step in reversed(self._steps):
            later = to_latest[-1]
            to_latest.append({was: later[now] for was, now in step.items() if now in later})
        found: list[tuple[Position, dict[str, str | None]]] = []
        for version, became in zip(self.versions, reversed(to_latest), strict=True):
            names = {c.name: became.get(c.name) for c in version.columns}
            others = {name: now for name, now in names.items() if now != name}
            if not found or found[-1][1] != others:
                found.append((version.position, others))
        return found

    def lineage(self, name: str) -> list[tuple[Position, Column]]:
        """What a column in force was in each version, with the version's position, earliest first.

        It follows renames back, to where the column was added. Versions that did not change the column are
        left out.
        """
        found: list[tuple[Position, Column]] = []
        steps_back = [{c.name: c.name for c in self.columns}, *reversed(self._steps_back)]
        for version, step in zip(reversed(self.versions), steps_back, strict=True):
            if name not in step:
                break
            name = step[name]
            column = next(column for column in version.columns if column.name == name)
            if found and replace(found[-1][1], key=column.key) == column:
                found.pop()
            found.append((version.position, column))
        return found[::-1]

    def doubts(self) -> list[tuple[Position, str]]:
        """The positions of versions that may have changed older rows in unknown ways, and why."""
        found = [(now.position, _doubt(was, now, renames)) for was, now, renames in self._changes]
        return [(position, doubt) for position, doubt in found if doubt is not None]

    def known_names(self) -> list[str]:
        """The names of all columns that ever existed: those in force in their order, then the others."""
        return list(dict.fromkeys(c.name for version in reversed(self.versions) for c in version.columns))

    def __str__(self) -> str:
        columns = ", ".join(f"{c.name} {c.spark_type.simpleString()}" for c in self.columns)
        lsn = format_lsn(self.latest.position[0])
        return f"{self.topic} from {lsn}: {columns}; key ({', '.join(self.key)})"


def topic_list(topics: Iterable[str]) -> list[str]:
    """The topics as a list. Raises SetupError if they are not names.

    A single name is refused too: each of its letters would be taken for a topic.
    """
    if isinstance(topics, str):
        raise SetupError(f"topics={topics!r}: write a list of topics, [{topics!r}]")
    found = list(topics) if isinstance(topics, Iterable) else [topics]
    if not all(isinstance(topic, str) for topic in found):
        raise SetupError(f"topics={topics!r}: write a list of topics")
    return found


def refuse_invalid_prefix(prefix: object) -> None:
    """Raise SetupError if it can't be a relay's prefix."""
    if not isinstance(prefix, str) or not prefix:
        raise SetupError(f"prefix={prefix!r}: write the relay's records.prefix")


def distinct_versions(versions: Iterable[TableVersion]) -> tuple[TableVersion, ...]:
    """The versions in order, without those that repeat the one before."""
    kept: list[TableVersion] = []
    for version in sorted(versions, key=lambda version: version.position):
        if not kept or not version.repeats(kept[-1]):
            kept.append(version)
    return tuple(kept)


def _doubt(was: TableVersion, now: TableVersion, renames: Renames) -> str | None:
    """Why rows of the earlier version may have changed without a record of it; None if they have not."""
    if was.relation != now.relation and 0 not in (was.relation, now.relation):
        # A re-created table has lost the old rows; one that was renamed to this name may have others.
        return "the rows are another table's, which was re-created or renamed to that name"
    if renames.doubt is not None:
        return renames.doubt
    later = {column.name: column for column in now.columns}
    for column in was.columns:
        became = later.get(renames.by_name.get(column.name, column.name))
        if became is None or not widens(column.spark_type, became.spark_type):
            continue
        if rewrites_values(column, became):
            types = f"is {declared_type(became)} and was {declared_type(column)}"
            return f"column {became.name!r} {types}, so existing values may have changed"
    return None


def require_schema(schema: object) -> None:
    """Raise SetupError unless it is a TableSchema: it may be the whole dict that `table_schemas` returns."""
    if not isinstance(schema, TableSchema):
        kind = type(schema).__name__
        raise SetupError(
            f"schema: a {kind} is no TableSchema: write schema=table_schemas(...)[topic] for one topic"
        )
