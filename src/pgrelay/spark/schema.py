"""A table's columns through time, as the schema topic told them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Self

from pyspark.sql.types import StructField, StructType

from pgrelay.errors import SetupError
from pgrelay.lsn import format_lsn
from pgrelay.spark.columns import Column
from pgrelay.spark.names import COMMIT_LSN, SEQ

Position = tuple[int, int]  # (commit_lsn, seq), which orders all changes of a database


@dataclass(frozen=True, slots=True)
class TableVersion:
    """The columns of a table, from a position on."""

    position: Position
    columns: tuple[Column, ...]
    replica_identity: str = "default"  # default, nothing, full or index

    def renames(self, later: "TableVersion") -> dict[str, str]:
        """The columns that have another name in the later version, by the earlier name.

        The stream tells of no rename. A column is taken for renamed where it is gone and another of the same
        type stands in its place: added ones stand behind all others.
        """
        names, later_names = {c.name for c in self.columns}, {c.name for c in later.columns}
        renames = dict[str, str]()
        # Between two columns that stayed there are those that went, and what came in their place.
        gone, came = _gaps(self.columns, later_names), _gaps(later.columns, names)
        for place, columns in gone.items():
            pairs = list(zip(columns, came.get(place, []), strict=False))
            if all(replace(old, name=new.name, key=new.key) == new for old, new in pairs):
                renames |= {old.name: new.name for old, new in pairs}
        return renames


@dataclass(frozen=True, slots=True)
class TableSchema:
    """What is known of a table: its topic, and its columns in every version, the last one being in force.

    `systemid` is that of the Postgres cluster; empty where it isn't known.
    """

    topic: str
    schema: str
    table: str
    versions: tuple[TableVersion, ...]
    systemid: str = ""

    def __post_init__(self) -> None:
        seen = dict[str, str]()
        for column in self.columns:
            other = seen.setdefault(column.name.lower(), column.name)
            if other is not column.name or column.name.lower() in (COMMIT_LSN, SEQ):
                raise SetupError(
                    f"{self.topic}: to Spark columns {other!r} and {column.name!r} are the same: rename one"
                    if other is not column.name
                    else f"{self.topic}: the name of column {column.name!r} is ours: rename it"
                )

    @property
    def latest(self) -> TableVersion:
        return self.versions[-1]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns in force, in table order."""
        return self.latest.columns

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the key's columns; empty of a table without a key."""
        return tuple(column.name for column in self.columns if column.key)

    @property
    def row_type(self) -> StructType:
        """The type of `before` and `after`."""
        return StructType([StructField(c.name, c.spark_type) for c in self.columns])

    @property
    def key_type(self) -> StructType:
        """The type of `key`; of a table without one, a struct without fields."""
        return StructType([StructField(c.name, c.spark_type) for c in self.columns if c.key])

    def as_text(self, *names: str) -> Self:
        """The same with these columns read as strings, in the record's own words.

        For values that the exact type can't hold: NaN in numeric(p,s), infinite dates, years before Christ,
        arrays of several dimensions. Raises SetupError where there is no such column.
        """
        known = {column.name for version in self.versions for column in version.columns}
        if unknown := set(names) - known:
            raise SetupError(
                f"{self.topic}: no column {sorted(unknown)[0]!r}; there are {', '.join(sorted(known))}"
            )
        versions = [
            replace(v, columns=tuple(replace(c, text=c.text or c.name in names) for c in v.columns))
            for v in self.versions
        ]
        return replace(self, versions=tuple(versions))

    def until(self, position: Position) -> Self:
        """The same as of a position: without the versions that come later, but for the first one."""
        versions = [version for version in self.versions if version.position <= position]
        return replace(self, versions=tuple(versions) or self.versions[:1])

    def lineage(self, name: str) -> list[tuple[Position, Column]]:
        """What a column in force was in each version, from when on, earliest first.

        It follows renames back, and ends where the column was added. Versions in which nothing of the column
        changed are left out.
        """
        found: list[tuple[Position, Column]] = []
        for version, column in self._backwards(name):
            if found and replace(found[-1][1], key=column.key) == column:
                found.pop()
            found.append((version.position, column))
        return found[::-1]

    def _backwards(self, name: str) -> Iterator[tuple[TableVersion, Column]]:
        later: TableVersion | None = None
        for version in reversed(self.versions):
            if later is not None:
                was = {new: old for old, new in version.renames(later).items()}
                name = was.get(name, name)
            column = next((column for column in version.columns if column.name == name), None)
            if column is None:
                return
            yield version, column
            later = version

    def known_names(self) -> list[str]:
        """The names of all columns that there ever were: those in force in their order, then the others."""
        return list(dict.fromkeys(c.name for version in reversed(self.versions) for c in version.columns))

    def __str__(self) -> str:
        columns = ", ".join(f"{c.name} {c.spark_type.simpleString()}" for c in self.columns)
        lsn = format_lsn(self.latest.position[0])
        return f"{self.topic} from {lsn}: {columns}; key ({', '.join(self.key)})"


def _gaps(columns: Iterable[Column], others: set[str]) -> dict[str, list[Column]]:
    """The columns that are not among the others, by the last one before them that is."""
    gaps: dict[str, list[Column]] = {}
    place = ""
    for column in columns:
        if column.name in others:
            place = column.name
        else:
            gaps.setdefault(place, []).append(column)
    return gaps


def folded(versions: Iterable[TableVersion]) -> tuple[TableVersion, ...]:
    """The versions in order, without those that tell nothing new: a relay repeats them at every start."""
    kept: list[TableVersion] = []
    for version in sorted(versions, key=lambda version: version.position):
        if not kept or replace(kept[-1], position=version.position) != version:
            kept.append(version)
    return tuple(kept)
