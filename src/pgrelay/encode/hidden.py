"""The columns that each relation hides, so that a rename of a column or a table does not expose one.

The patterns of `records.columns` match names. A rename takes effect with the next row, before anybody could
have changed the configuration.
"""

from dataclasses import dataclass

from pgrelay.encode.plan import Plan
from pgrelay.encode.selection import KEEP
from pgrelay.errors import SetupError


@dataclass(frozen=True, slots=True)
class _Known:
    """A relation as it was at an LSN.

    `columns` by name: the index, type OID, and treatment.
    """

    lsn: int
    table: str
    columns: dict[str, tuple[int, int, str]]


class HiddenColumns:
    """By OID. Kept as long as the process runs, since a rename may fall between two sessions."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}

    def check(self, plan: Plan, lsn: int) -> None:
        """Take in a relation as it is for the change at `lsn`.

        Raises SetupError if a column that was hidden would be shown. An earlier change, as one that is sent
        again or was prepared, has the names of its time.
        """
        oid = plan.relation.oid
        known = self._known.get(oid)
        if known is not None:
            if lsn < known.lsn:
                return
            _refuse_exposed(plan, known)
        columns = {
            column.name: (index, column.type_oid, column.treatment)
            for index, column in enumerate(plan.columns)
        }
        if any(treatment != KEEP for _, _, treatment in columns.values()):
            self._known[oid] = _Known(lsn, plan.table, columns)
        else:
            self._known.pop(oid, None)


def _refuse_exposed(plan: Plan, known: _Known) -> None:
    for name, (index, type_oid, treatment) in known.columns.items():
        shown = None if treatment == KEEP else _exposed_name(plan, known, name, index, type_oid)
        if shown is not None:
            raise SetupError(
                f"{plan.table}.{shown} takes the place of {known.table}.{name}, which "
                f"records.columns.{treatment} hides, but no pattern hides it by its new name; add one, or "
                "restart pgrelay to relay its values"
            )


def _exposed_name(plan: Plan, known: _Known, name: str, index: int, type_oid: int) -> str | None:
    """The name under which a hidden column would be exposed; None if it is still hidden, or is gone.

    Another name may be a new column's, if the old one was dropped. It is taken for the old one's if it has
    its place or its type, as a renamed column has.
    """
    place = next((place for place, column in enumerate(plan.columns) if column.name == name), -1)
    if place >= 0 and plan.columns[place].treatment == KEEP:
        return name
    if place > index:
        # A column never moves to the right: this is another one, which has taken the name.
        before = plan.columns[index]
        return before.name if before.treatment == KEEP and before.type_oid == type_oid else None
    if place >= 0:
        return None
    for place, column in enumerate(plan.columns):
        new = column.name not in known.columns
        if new and column.treatment == KEEP and (place == index or column.type_oid == type_oid):
            return column.name
    return None
