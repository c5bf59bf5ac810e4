"""The columns that each relation hides, so that none is shown just because it or its table was renamed.

The patterns of `records.columns` match names. A rename takes effect with the next row, before anybody could
have changed the configuration.
"""

from dataclasses import dataclass

from pgrelay.encode.plan import ColumnPlan, Plan
from pgrelay.encode.selection import DROP, HASH, MASK
from pgrelay.errors import SetupError


@dataclass(frozen=True, slots=True)
class _Known:
    """A relation as it was at an LSN.

    `columns` by name: the index, type OID, and the list that hides it; '' if none does.
    """

    lsn: int
    table: str
    columns: dict[str, tuple[int, int, str]]


class HiddenColumns:
    """By OID. Kept for as long as the process runs: a rename may fall between two sessions."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}

    def check(self, plan: Plan, lsn: int) -> None:
        """Take in a relation as it is for the change at `lsn`.

        Raises SetupError if a column that was hidden would be shown. An earlier change, as one that is sent
        again or was prepared, has the names of its time.
        """
        oid = plan.relation.oid
        known = self._known.get(oid)
        if known is not None and lsn < known.lsn:
            return
        if known is not None:
            for name, (index, type_oid, treatment) in known.columns.items():
                shown = _shown(plan, known, name, index, type_oid) if treatment else None
                if shown is not None:
                    raise SetupError(
                        f"{plan.table}.{shown} takes the place of {known.table}.{name}, which "
                        f"records.columns.{treatment} hides, but no pattern hides it by its new name; add "
                        "one, or restart pgrelay to relay its values"
                    )
        columns = {
            column.name: (index, column.type_oid, _treatment(column))
            for index, column in enumerate(plan.columns)
        }
        if any(treatment for _, _, treatment in columns.values()):
            self._known[oid] = _Known(lsn, plan.table, columns)
        else:
            self._known.pop(oid, None)


def _shown(plan: Plan, known: _Known, name: str, index: int, type_oid: int) -> str | None:
    """The name under which a column that was hidden would be shown; None if it still is hidden, or is gone.

    Another name may be a new column's, if the old one was dropped. It is taken for the old one's if it has
    its place or its type, as a renamed column has.
    """
    now: dict[str, ColumnPlan] = {column.name: column for column in plan.columns}
    if name in now:
        if now[name].shown:
            return name
        # No column that stays moves to the right: one that has, took this name from the column before it.
        there = plan.columns[index] if index < len(plan.columns) else None
        moved = there is not None and there.name != name and there.type_oid == type_oid and there.shown
        left = [column.name for column in plan.columns[: index + 1]]
        return there.name if there is not None and moved and name not in left else None
    for place, column in enumerate(plan.columns):
        new = column.name not in known.columns
        if new and column.shown and (place == index or column.type_oid == type_oid):
            return column.name
    return None


def _treatment(column: ColumnPlan) -> str:
    if column.shown:
        return ""
    if column.dropped:
        return DROP
    return MASK if column.hidden else HASH
