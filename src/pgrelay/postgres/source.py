"""The replication socket: XLogData out, StandbyStatusUpdate in.

psycopg has no replication interface, so its libpq wrapper (`psycopg.pq`) is driven directly: connect with
replication=database, send START_REPLICATION, then exchange CopyData without ever blocking. One task owns the
socket. Source: PostgreSQL manual, "Streaming Replication Protocol" and libpq's "COPY Commands".
"""

import asyncio
import contextlib
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import psycopg
from psycopg import pq

from pgrelay.errors import PgrelayError, SetupError, SourceUnavailable
from pgrelay.handover import take_frames
from pgrelay.lsn import parse_lsn
from pgrelay.postgres.connection import STARTED_US, connect
from pgrelay.postgres.errors import one_line, server_error
from pgrelay.postgres.timeline_history import FIRST_TIMELINE, TimelineHistory
from pgrelay.wire.replication import StandbyStatusUpdate, StreamOptions, start_replication

_CLOSE_TIMEOUT_S: Final = 2.0

# For a command. Before a stream begins, the server may have to remove much that an earlier stream spilled.
_COMMAND_TIMEOUT_S: Final = 60.0
_FLUSH_RETRY_S: Final = 0.01
_RECHECK_S: Final = 0.1
# How much is read at once from a stream that is being ended: frames and bytes.
_DISCARD_LIMITS: Final = (500, 1 << 20)
# What libpq says if the process may have no more memory.
_NO_MEMORY: Final = ("out of memory", "cannot allocate memory")
_SUCCESS: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


@dataclass(frozen=True, slots=True)
class System:
    """What IDENTIFY_SYSTEM says: the cluster, its timeline, and where its WAL ends now.

    `history` has the timelines before it; None if the server lacks its history file.
    """

    systemid: str
    timeline: int
    wal_end: int
    history: TimelineHistory | None = FIRST_TIMELINE


class Source:
    """One replication connection. Every method raises SourceUnavailable once the connection is lost.

    `walsender_pid` is as in the server's own views. `server_started_us` is when the server was started, in
    microseconds since 1970: it differs between two servers of a cluster.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.walsender_pid = 0
        self.server_started_us = 0
        self._bytes_arrived = False
        self._connection: psycopg.AsyncConnection[tuple[Any, ...]]
        self._pgconn: pq.abc.PGconn
        self._readable = asyncio.Event()
        self._streaming = False
        self._ended_by: PgrelayError | None = None
        self._socket = -1

    async def __aenter__(self) -> Self:
        self._connection = await connect(self._dsn, replication="database")
        self._pgconn = self._connection.pgconn
        self._pgconn.nonblocking = 1
        # Kept because libpq forgets it once the server has closed the connection.
        self._socket = self._pgconn.socket
        try:
            # Asked, because the PID that libpq knows may be a proxy's own number.
            result = await self._execute(f"SELECT pg_backend_pid(), {STARTED_US}")
        except BaseException:
            # Nobody else would close it: a block that was not entered is not left.
            await self._connection.close()
            raise
        self.walsender_pid, self.server_started_us = (int(result.get_value(0, n) or b"0") for n in range(2))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._streaming and error is None:
            with contextlib.suppress(SourceUnavailable, TimeoutError):
                async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                    await self._end_copy()
        await self._connection.close()

    @property
    def server_version(self) -> int:
        """As libpq numbers it: 180004."""
        return self._pgconn.server_version

    @property
    def encrypted(self) -> bool:
        return self._pgconn.ssl_in_use

    @property
    def server_encoding(self) -> str:
        return (self._pgconn.parameter_status(b"server_encoding") or b"UTF8").decode()

    async def identify(self) -> System:
        result = await self._execute("IDENTIFY_SYSTEM")
        systemid, timeline, lsn = (result.get_value(0, column) or b"" for column in range(3))
        history = await self._history(int(timeline))
        return System(systemid.decode(), int(timeline), parse_lsn(lsn.decode()), history)

    async def _history(self, timeline: int) -> TimelineHistory | None:
        if timeline == 1:
            # The first has no file; the server would report it as removed.
            return FIRST_TIMELINE
        try:
            result = await self._execute(f"TIMELINE_HISTORY {timeline}")
        except SetupError:
            # Most starts don't need it; a check that does says what is missing.
            return None
        return TimelineHistory.parse((result.get_value(0, 1) or b"").decode(errors="replace"))

    async def start(self, slot: str, lsn: int, options: StreamOptions) -> None:
        """Begin streaming from `lsn`, or where the slot stands if that is later."""
        if self.server_encoding == "SQL_ASCII":
            # Otherwise the server would end the stream at a value that is not UTF-8, without saying where.
            await self._execute("SET client_encoding TO SQL_ASCII")
        # Values such as regclass are printed by it: as by default, whatever role and database say.
        await self._execute('SET search_path TO "$user", public')
        await self._execute(start_replication(slot, lsn, options))
        self._streaming = True

    async def _execute(self, command: str) -> pq.abc.PGresult:
        """Run one command of the replication grammar. Raises what the server's error means."""
        try:
            async with asyncio.timeout(_COMMAND_TIMEOUT_S):
                result = await self._ask(command)
        except TimeoutError:
            text = f"Postgres has not answered {command.split()[0]} for {_COMMAND_TIMEOUT_S:g} s"
            raise SourceUnavailable(text) from None
        except psycopg.OperationalError as error:
            raise _connection_lost(error) from error
        if result is None or result.status not in (*_SUCCESS, pq.ExecStatus.COPY_BOTH):
            raise self._result_error(result)
        return result

    async def _ask(self, command: str) -> pq.abc.PGresult | None:
        self._pgconn.send_query(command.encode())
        await self._flush()
        result = await self._result()
        if result is not None and result.status != pq.ExecStatus.COPY_BOTH:
            # The connection is idle again only once all results have been read; an error may close it.
            with contextlib.suppress(psycopg.OperationalError):
                while await self._result() is not None:
                    pass
        return result

    async def _result(self) -> pq.abc.PGresult | None:
        while self._pgconn.is_busy():
            # TLS may hold decrypted bytes that the socket no longer announces.
            await self.wait_readable(_RECHECK_S)
            self._pgconn.consume_input()
        return self._pgconn.get_result()

    async def _flush(self) -> None:
        while self._pgconn.flush():
            await self.wait_readable(_FLUSH_RETRY_S)

    def _result_error(self, result: pq.abc.PGresult | None) -> PgrelayError:
        if result is None:
            return SourceUnavailable("Postgres ended the stream")
        sqlstate = result.error_field(pq.DiagnosticField.SQLSTATE)
        text = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"Postgres ended the stream"
        context = result.error_field(pq.DiagnosticField.CONTEXT) or b""
        return server_error(
            sqlstate.decode() if sqlstate else None,
            text.decode(errors="replace"),
            one_line(context.decode(errors="replace")),
        )

    async def wait_readable(self, timeout_s: float | None) -> None:
        """Return once bytes have arrived, `wake` was called (even before), or `timeout_s` is over.

        Raises SourceUnavailable if the connection was found closed.
        """
        loop = asyncio.get_running_loop()
        # Registered only now: while nobody reads, waiting bytes would make the loop spin.
        try:
            loop.add_reader(self._socket, self._on_readable)
        except OSError as error:
            raise SourceUnavailable("Postgres cut the connection") from error
        try:
            async with asyncio.timeout(timeout_s):
                await self._readable.wait()
        except TimeoutError:
            pass
        finally:
            loop.remove_reader(self._socket)
            self._readable.clear()

    def _on_readable(self) -> None:
        self._bytes_arrived = True
        self._readable.set()

    def take_bytes_arrived(self) -> bool:
        """Whether a `wait_readable` since the last call saw bytes arrive, if only part of a message."""
        arrived, self._bytes_arrived = self._bytes_arrived, False
        return arrived

    def wake(self) -> None:
        """End a `wait_readable` early."""
        self._readable.set()

    def read(self, max_frames: int, max_bytes: int) -> list[bytes]:
        """The CopyData messages that have arrived, at most as many as asked for. A keepalive is always last.

        Empty if nothing has arrived. Raises what the server's error means if it ends the stream.
        """
        if self._ended_by is not None:
            raise self._ended_by
        frames: list[bytes] = []
        pgconn = self._pgconn
        try:
            goes_on = take_frames(frames, pgconn.get_copy_data, pgconn.consume_input, max_frames, max_bytes)
        except psycopg.OperationalError as error:
            self._ended_by = _connection_lost(error)
            if not frames:
                raise self._ended_by from error
            return frames
        if not goes_on:
            # libpq gives the reason once: keep it until the frames before it are taken.
            self._ended_by = self._result_error(pgconn.get_result())
            if not frames:
                raise self._ended_by
        return frames

    def send_status(self, received_lsn: int, flush_lsn: int, *, reply: bool = False) -> bool:
        """Send a StandbyStatusUpdate; `flush_lsn` moves the slot, 0 leaves it. False if it can't be sent.

        `reply`: the server is to answer with a keepalive.
        """
        if self._ended_by is not None:
            return False
        update = StandbyStatusUpdate(received_lsn, flush_lsn, flush_lsn, time.time_ns() // 1000, reply)
        try:
            sent = self._pgconn.put_copy_data(update.serialize())
            self._pgconn.flush()
        except psycopg.OperationalError as error:
            raise _connection_lost(error) from error
        return sent == 1

    async def _end_copy(self) -> None:
        """End the stream as the protocol wants it, so that the slot is free when we return."""
        pgconn = self._pgconn
        try:
            while not pgconn.put_copy_end():
                await self.wait_readable(_FLUSH_RETRY_S)
            await self._flush()
            unread: list[bytes] = []
            while take_frames(unread, pgconn.get_copy_data, pgconn.consume_input, *_DISCARD_LIMITS):
                await self.wait_readable(0 if unread else None)
                unread.clear()
            # The server releases the slot after its CopyDone, and before the command completes.
            while pgconn.is_busy():
                await self.wait_readable(None)
                pgconn.consume_input()
        except psycopg.OperationalError as error:
            raise SourceUnavailable(one_line(error)) from error


def _connection_lost(error: psycopg.OperationalError) -> SourceUnavailable:
    """The error for a connection that libpq has given up: it was closed, or there was too little memory."""
    text = one_line(error)
    if any(phrase in text for phrase in _NO_MEMORY):
        return SourceUnavailable(f"too little memory for what Postgres sends: {text}; give the process more")
    return SourceUnavailable(f"Postgres cut the connection: {text}")
