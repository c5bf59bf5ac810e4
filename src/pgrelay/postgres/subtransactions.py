"""Which subtransactions of an ended transaction were rolled back.

Source: PostgreSQL manual, "Transaction ID and Snapshot Information Functions", pg_xact_status; xact.c,
AbortSubTransaction, which records a rollback before anything later of the transaction can be in the WAL. The
slot's catalog_xmin keeps the server from forgetting it.
"""

from collections.abc import Sequence
from typing import Final

from psycopg import sql

from pgrelay.postgres.catalog import Catalog

_BATCH: Final = 10_000

# The stream has 32-bit ids, and the function takes 64 bits: the id nearest to the next one. One that is still
# running, as in a prepared transaction, counts as not rolled back.
_ROLLED_BACK: Final = sql.SQL(
    "SELECT xid FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next) n, "
    "LATERAL (SELECT xid, next + ((xid - next + 2147483648) & 4294967295) - 2147483648 AS whole "
    "FROM unnest(%s::bigint[]) AS xid) x WHERE pg_xact_status(whole::text::xid8) = 'aborted'"
)


async def rolled_back(catalog: Catalog, subxids: Sequence[int]) -> list[int]:
    """Those of the subtransactions, by 32-bit id, that were rolled back; PostgreSQL 13 or later.

    Raises as the catalogue's queries do.
    """
    found: list[int] = []
    for start in range(0, len(subxids), _BATCH):
        rows = await catalog.rows(_ROLLED_BACK, (list(subxids[start : start + _BATCH]),))
        found += [xid for (xid,) in rows]
    return found
