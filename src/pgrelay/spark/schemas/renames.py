"""Which columns were renamed from one version of a table to the next: the schema topic has only names.

Postgres never reorders columns. Those that stay keep their order, a renamed one keeps its place, and added
ones come after all others. So a new name before a column that stayed means a rename, of the column that is no
longer there. After the last that stayed, a column that is gone and a new one of the same type count as a
rename too, or, if the new type can't hold the old values, as a drop and an add. If another reading is as
likely, `Renames.doubt` says so: a wrong guess would put one column's values under another's name.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.widening import widens

Columns = Sequence[Column]


@dataclass(frozen=True, slots=True)
class Renames:
    """The later names of renamed columns, by the earlier name; `doubt` says what is ambiguous."""

    by_name: dict[str, str]
    doubt: str | None = None


def find_renames(earlier: Columns, later: Columns) -> Renames:
    """The columns of one version that have other names in the next."""
    names, later_names = {c.name for c in earlier}, {c.name for c in later}
    stayed = [column.name for column in later if column.name in names]
    if stayed != [column.name for column in earlier if column.name in later_names]:
        return Renames(
            {}, f"columns {_quoted_list(stayed)} have another order: some were renamed or re-created"
        )
    renames = dict[str, str]()
    removed, added = _gaps(earlier, later_names), _gaps(later, names)
    last = len(removed) - 1
    for place, (old, new) in enumerate(zip(removed, added, strict=True)):
        pairs = _at_end(old, new) if place == last else _between(old, new)
        if pairs is None:
            return Renames(renames, _doubt(old, new))
        renames |= {one.name: other.name for one, other in pairs}
    return Renames(renames)


def _between(removed: Columns, added: Columns) -> list[tuple[Column, Column]] | None:
    """The renames among columns before one that stayed; None if they are ambiguous."""
    if len(removed) == len(added):
        return list(zip(removed, added, strict=True))
    fits = [
        list(zip(some, added, strict=True))
        for some in combinations(removed, len(added))
        if all(widens(old.spark_type, new.spark_type) for old, new in zip(some, added, strict=True))
    ]
    return fits[0] if len(fits) == 1 else None


def _at_end(removed: Columns, added: Columns) -> list[tuple[Column, Column]] | None:
    """The same for those after the last that stayed, where columns are added."""
    pairs = list(zip(removed, added, strict=False))
    same = all(replace(old, name=new.name, key=new.key) == new for old, new in pairs)
    if same and len(removed) <= len(added):
        return pairs
    # If any of the new columns is a renamed one, the first is.
    renamed = any(widens(old.spark_type, new.spark_type) for new in added[:1] for old in removed)
    return None if renamed else []


def _doubt(removed: Columns, added: Columns) -> str:
    old, new = (_quoted_list(column.name for column in columns) for columns in (removed, added))
    if removed:
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


def _quoted_list(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
