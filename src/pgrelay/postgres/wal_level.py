"""Whether the server's WAL has, or will have for a slot, what logical decoding needs.

Source: PostgreSQL manual, "wal_level" and, since PostgreSQL 19, "effective_wal_level".
"""

from dataclasses import dataclass
from typing import Final

from psycopg import sql

from pgrelay.postgres.catalog import Catalog

_LOGICAL: Final = "logical"

_QUERY: Final = sql.SQL(
    "SELECT current_setting('wal_level'), current_setting('effective_wal_level', true), pg_is_in_recovery()"
)


@dataclass(frozen=True, slots=True)
class WalLevel:
    """`setting` is the server's own; `effective` what the WAL has now, None before PostgreSQL 19."""

    setting: str
    effective: str | None = None
    standby: bool = False

    @property
    def suffices(self) -> bool:
        if self.effective is None:
            return self.setting == _LOGICAL
        if self.standby:  # its WAL is the primary's
            return self.effective == _LOGICAL
        return self.setting != "minimal"  # the first logical slot raises it

    @property
    def cure(self) -> str:
        if self.effective is not None and self.standby:
            return "create a logical slot on the primary, and keep it"
        return "ALTER SYSTEM SET wal_level = logical, and restart"

    def __str__(self) -> str:
        told = f"wal_level is {self.setting}"
        if self.effective not in (None, self.setting):
            return f"{told}, in effect {self.effective}"
        return (
            f"{told}, and logical with the first slot" if self.suffices and self.setting != _LOGICAL else told
        )


async def wal_level(catalog: Catalog) -> WalLevel:
    """As the server says now."""
    return WalLevel(*(await catalog.rows(_QUERY))[0])
