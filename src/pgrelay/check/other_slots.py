"""The other slots of the cluster, of replicas and relays: they also hold back WAL."""

from dataclasses import dataclass
from typing import Final

from psycopg import sql

from pgrelay.check.findings import Finding, first_few, ok, warning
from pgrelay.figures import counted, size
from pgrelay.postgres.catalog import WAL_END, Catalog

_GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class OtherSlot:
    """Another slot, and how many bytes of WAL it holds back."""

    slot: str
    active: bool
    held_bytes: int

    def __str__(self) -> str:
        return f"{self.slot} ({size(self.held_bytes)}{'' if self.active else ', nobody reads it'})"


async def other_slot_findings(catalog: Catalog, slot: str) -> list[Finding]:
    query = sql.SQL(
        "SELECT slot_name, active, ({} - restart_lsn)::bigint FROM pg_replication_slots "
        "WHERE slot_name <> %s AND restart_lsn IS NOT NULL ORDER BY 3 DESC, 1"
    ).format(WAL_END)
    return slots_holding_wal([OtherSlot(*row) for row in await catalog.rows(query, (slot,))])


def slots_holding_wal(slots: list[OtherSlot]) -> list[Finding]:
    """`slots` are all other slots, ordered by the WAL that they hold back, most first."""
    if not slots:
        return [ok("no other slot holds back WAL")]
    forgotten = [each for each in slots if not each.active and each.held_bytes >= _GIB]
    if not forgotten:
        return [ok(f"{counted(len(slots), 'other slot')}: {first_few([str(each) for each in slots])}")]
    drop = f"SELECT pg_drop_replication_slot('{forgotten[0].slot}')"
    return [
        warning(
            f"unread slots hold back WAL: {first_few([str(each) for each in forgotten])}",
            "the disk fills, however fast this relay is",
            f"start the slot's reader, or drop the slot: {drop}",
        )
    ]
