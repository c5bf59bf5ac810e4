"""Queries on Postgres's catalogue, over an ordinary connection beside the stream.

Never called from a decoder. The relay looks up the slot, its WAL and the publications at a start and every
few seconds. For tables and types see facts.py. Source: PostgreSQL manual, "System Catalogs" and "System
Views".
"""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import psycopg
from psycopg import sql

from pgrelay.errors import PgrelayError, SourceUnavailable
from pgrelay.lsn import parse_lsn
from pgrelay.postgres.connection import STARTED_US, connect, hang_up
from pgrelay.postgres.errors import query_error
from pgrelay.postgres.slots import Slot, SlotWal
from pgrelay.wire.xid import xids_ahead

Row = tuple[Any, ...]

_QUERY_TIMEOUT_S: Final = 10.0
_STATEMENT_TIMEOUT: Final = "9s"
_UNANSWERED: Final = "Postgres has not answered a query on its catalogue for 10 s; is a table locked?"

# The error for a relation that was dropped before it was opened by its OID; it is never translated.
_DROPPED: Final = "could not open relation with OID"

# Where the server's WAL ends now; on a standby, what it has replayed.
WAL_END: Final = sql.SQL(
    "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END"
)

# What publication `p` publishes, in this order; an array. PostgreSQL 10 has no pubtruncate.
OPERATIONS: Final = (
    "ARRAY (SELECT operation FROM unnest('{insert,update,delete,truncate}'::text[]) AS operation "
    "WHERE (to_jsonb(p) ->> ('pub' || operation))::boolean)"
)

# Whether an index identifies the rows of table `c` of pg_class.
IDENTITY_INDEX: Final = (
    "EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND CASE c.relreplident "
    "WHEN 'd' THEN i.indisprimary AND i.indimmediate WHEN 'i' THEN i.indisreplident END)"
)

# What the reader of slot `s` waits for. Our own processes are shown to us, whatever our rights.
_WAIT_EVENT: Final = "(SELECT a.wait_event FROM pg_stat_activity a WHERE a.pid = s.active_pid)"


@dataclass(frozen=True, slots=True)
class PublicationRow:
    """A row of pg_publication; `operations` as `OPERATIONS` says."""

    oid: int
    operations: tuple[str, ...]


class Catalog:
    """One ordinary connection. Queries raise as `errors.query_error` says."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._lock = asyncio.Lock()
        self._given_up = False
        self._connection: psycopg.AsyncConnection[Row]

    async def __aenter__(self) -> Self:
        self._connection = await connect(self._dsn)
        # A backend that waits for a lock does not notice that we are gone.
        try:
            await self.rows(
                sql.SQL("SELECT set_config('statement_timeout', %s, false)"), (_STATEMENT_TIMEOUT,)
            )
        except BaseException:
            # Nobody else would close it: a block that was not entered is not left.
            await self._connection.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.close()

    @property
    def server_version(self) -> int:
        return self._connection.info.server_version

    @property
    def database(self) -> str:
        return self._connection.info.dbname

    async def rows(
        self,
        query: sql.SQL | sql.Composed,
        parameters: Sequence[object] = (),
    ) -> list[Row]:
        """The rows of a query, with parameters as %s. Raises as `errors.query_error` says."""
        async with self._exclusive() as connection:
            cursor = await connection.execute(query, parameters or None)
            return await cursor.fetchall() if cursor.description else []

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Run the queries inside as one transaction, undone by an error. No other task may query then."""
        await self.rows(sql.SQL("BEGIN"))
        try:
            yield
            await self.rows(sql.SQL("COMMIT"))
        except BaseException:
            # If the connection itself has failed, the server rolls back on its own.
            with suppress(PgrelayError):
                await self.rows(sql.SQL("ROLLBACK"))
            raise

    @asynccontextmanager
    async def _exclusive(
        self, timeout_s: float | None = _QUERY_TIMEOUT_S
    ) -> AsyncIterator[psycopg.AsyncConnection[Row]]:
        """Hold the connection for one query. Raises SourceUnavailable if it is not answered in time."""

        def give_up() -> None:
            self._given_up = True
            hang_up(self._connection)

        async with self._lock:
            loop = asyncio.get_running_loop()
            timer = None if timeout_s is None else loop.call_later(timeout_s, give_up)
            try:
                yield self._connection
            except psycopg.Error as error:
                # A query that waited for the lock finds the connection closed for the same reason.
                unanswered = self._given_up or isinstance(error, psycopg.errors.QueryCanceled)
                raise SourceUnavailable(_UNANSWERED) if unanswered else query_error(error) from error
            finally:
                if timer is not None:
                    timer.cancel()

    async def setting(self, name: str) -> str:
        rows = await self.rows(sql.SQL("SELECT current_setting(%s)"), (name,))
        return str(rows[0][0])

    async def wal_sender_timeout_s(self) -> float:
        """Seconds; 0 if the server never drops a silent client."""
        query = sql.SQL("SELECT setting::int FROM pg_settings WHERE name = 'wal_sender_timeout'")
        return int((await self.rows(query))[0][0]) / 1000

    async def slot(self, name: str) -> Slot | None:
        """The slot as pg_replication_slots has it; None if there is none."""
        query = sql.SQL(
            "SELECT to_jsonb(s), "
            "extract(epoch FROM clock_timestamp() - (to_jsonb(s) ->> 'inactive_since')::timestamptz)::float8 "
            "FROM pg_replication_slots s WHERE slot_name = %s"
        )
        rows = await self.rows(query, (name,))
        return Slot.from_row(*rows[0]) if rows else None

    async def create_slot(self, name: str) -> None:
        """Returns once every transaction that runs now has ended, because the server waits for them."""
        query = sql.SQL("SELECT FROM pg_create_logical_replication_slot(%s, 'pgoutput')")
        async with self._exclusive(timeout_s=None) as connection, connection.transaction():
            await connection.execute("SET LOCAL statement_timeout = 0")
            await connection.execute(query, (name,))

    async def drop_slot(self, name: str) -> None:
        await self.rows(sql.SQL("SELECT FROM pg_drop_replication_slot(%s)"), (name,))

    async def publications(self, names: Sequence[str]) -> dict[str, PublicationRow]:
        """Those that exist, by name."""
        query = sql.SQL(f"SELECT pubname, oid, {OPERATIONS} FROM pg_publication p WHERE pubname = ANY (%s)")
        rows = await self.rows(query, (list(names),))
        return {name: PublicationRow(oid, tuple(operations)) for name, oid, operations in rows}

    async def published_tables(self, names: Sequence[str]) -> list[tuple[int, str, str]] | None:
        """OID, schema and name of the tables whose rows these publications send: partitions, or their root.

        None if that can't be known now, since the view opens each table: somebody, such as a prepared
        transaction, has locked one, or one was dropped meanwhile, or there are too many.
        """
        query = sql.SQL(
            "SELECT DISTINCT c.oid, schemaname, tablename FROM pg_publication_tables "
            "JOIN pg_namespace n ON n.nspname = schemaname "
            "JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = tablename "
            "WHERE pubname = ANY (%s) ORDER BY schemaname, tablename"
        )
        async with self._exclusive() as connection:
            try:
                async with connection.transaction():
                    await connection.execute("SET LOCAL lock_timeout = '500ms'")
                    cursor = await connection.execute(query, (list(names),))
                    return [(oid, schema, name) for oid, schema, name in await cursor.fetchall()]
            except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled):
                return None
            except psycopg.errors.InternalError_ as error:
                if _DROPPED not in str(error):
                    raise
                return None

    async def existing_tables(self, oids: Collection[int]) -> frozenset[int]:
        """Those of the OIDs that still belong to a table."""
        query = sql.SQL("SELECT oid FROM pg_class WHERE oid = ANY (%s)")
        return frozenset(row[0] for row in await self.rows(query, (list(oids),)))

    async def without_replica_identity(self, oids: Collection[int]) -> list[str]:
        """Names, quoted, of those of the tables that have no replica identity.

        While one is published, Postgres refuses to update or delete its rows.
        """
        query = sql.SQL(
            "SELECT c.oid::regclass::text FROM pg_class c WHERE c.oid = ANY (%s) "
            f"AND c.relreplident <> 'f' AND NOT {IDENTITY_INDEX} ORDER BY 1"
        )
        return [row[0] for row in await self.rows(query, (list(oids),))]

    async def in_recovery(self) -> bool:
        """Whether the server is a standby."""
        return bool((await self.rows(sql.SQL("SELECT pg_is_in_recovery()")))[0][0])

    async def xid_after_prepared(self) -> int:
        """An xid of 64 bits: transactions that have ended or are prepared have earlier ones.

        Those that run may have later ones. Since PostgreSQL 13; a standby does not know what is prepared.
        """
        # The snapshot's xmax follows the last transaction that has ended, not the last that was begun. It is
        # fetched second: what is no longer prepared by then has ended.
        prepared = await self.rows(sql.SQL("SELECT transaction::text FROM pg_prepared_xacts"))
        end = int((await self.rows(sql.SQL("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")))[0][0])
        past = (xids_ahead(int(xid), end) for (xid,) in prepared)
        return max([end, *(end + by + 1 for by in past if by is not None)])

    async def server_started_us(self) -> int:
        """When the server was started, in microseconds since 1970."""
        return int((await self.rows(sql.SQL(f"SELECT {STARTED_US}")))[0][0])

    async def wal_end(self) -> int:
        """Where the server's WAL ends now; on a standby, what it has replayed."""
        return parse_lsn((await self.rows(sql.SQL("SELECT {}::text").format(WAL_END)))[0][0])

    async def snapshot(self) -> str:
        """Which transactions queries see now: a snapshot as the server prints it."""
        function = "pg_current_snapshot" if self.server_version >= 130000 else "txid_current_snapshot"
        return str((await self.rows(sql.SQL(f"SELECT {function}()::text")))[0][0])

    async def slot_wal(self, name: str) -> SlotWal:
        """What the server keeps for the slot, if there is one."""
        query = sql.SQL(
            "SELECT {}::text, to_jsonb(s), {} FROM (SELECT) AS always "
            "LEFT JOIN pg_replication_slots s ON slot_name = %s"
        ).format(WAL_END, sql.SQL(_WAIT_EVENT))
        asked_at = time.monotonic()
        [(wal_end, row, wait_event)] = await self.rows(query, (name,))
        return SlotWal.from_row(asked_at, parse_lsn(wal_end), row, wait_event)
