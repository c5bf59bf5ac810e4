"""Which columns were renamed from one version of a table to the next: the schema topic has only names.

Postgres never reorders columns. Columns that stay keep their order, a renamed one keeps its place, and added
ones come after all others. So a new name in front of a column that stayed is a rename, of the column that is
gone from there. After the last that stayed, a column that is gone and a new one of the same type count as a
rename too; if the new type can't hold the old values, as a drop and an add. If another reading is as likely,
`Renames.doubt` says so: a guess would put a column's values under another name.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.widening import widens

Columns = Sequence[Column]


@dataclass(frozen=True, slots=True)
class Renames:
    """The later names of renamed columns, by the earlier name; `doubt` says what can't be told."""

    by_name: dict[str, str]
    doubt: str | None = None


def find_renames(earlier: Columns, later: Columns) -> Renames:
    """The columns of one version that have other names in the next."""
    names, later_names = {c.name for c in earlier}, {c.name for c in later}
    stayed = [column.name for column in later if column.name in names]
    if stayed != [column.name for column in earlier if column.name in later_names]:
        return Renames({}, f"columns {_told(stayed)} have another order: some were renamed or re-created")
    renames = dict[str, str]()
    gone, came = _gaps(earlier, later_names), _gaps(later, names)
    last = len(gone) - 1
    for place, (old, new) in enumerate(zip(gone, came, strict=True)):
        pairs = _behind_all(old, new) if place == last else _between(old, new)
        if pairs is None:
            return Renames(renames, _doubt(old, new))
        renames |= {one.name: other.name for one, other in pairs}
    return Renames(renames)


def _between(gone: Columns, came: Columns) -> list[tuple[Column, Column]] | None:
    """The renames among columns in front of one that stayed; None if they can't be told."""
    if len(gone) == len(came):
        return list(zip(gone, came, strict=True))
    fits = [
        list(zip(some, came, strict=True))
        for some in combinations(gone, len(came))
        if all(widens(old.spark_type, new.spark_type) for old, new in zip(some, came, strict=True))
    ]
    return fits[0] if len(fits) == 1 else None


def _behind_all(gone: Columns, came: Columns) -> list[tuple[Column, Column]] | None:
    """The same at the table's end, where columns are added."""
    pairs = list(zip(gone, came, strict=False))
    same = all(replace(old, name=new.name, key=new.key) == new for old, new in pairs)
    if same and len(gone) <= len(came):
        return pairs
    # If any of the new columns is a renamed one, the first is.
    renamed = any(widens(old.spark_type, new.spark_type) for new in came[:1] for old in gone)
    return None if renamed else []


def _doubt(gone: Columns, came: Columns) -> str:
    old, new = (_told(column.name for column in columns) for columns in (gone, came))
    if gone:
        return f"it is unclear which of {old} became {new}"
    return f"{new} comes before existing columns, so one of them was renamed, or {new} was hidden before"


def _gaps(columns: Columns, others: set[str]) -> list[list[Column]]:
    """The columns that are not among the others, in groups: before each that is, and after the last."""
    gaps: list[list[Column]] = [[]]
    for column in columns:
        if column.name in others:
            gaps.append([])
        else:
            gaps[-1].append(column)
    return gaps


def _told(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
