"""How both connections to Postgres are opened, and what its errors mean to us."""

import asyncio
import os
import re
import socket
from collections.abc import Mapping
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgrelay.errors import (
    BEGIN_ANEW,
    GapError,
    PasswordRefused,
    PgrelayError,
    RecordError,
    SetupError,
    SourceUnavailable,
    StreamingFailed,
)
from pgrelay.postgres.cures import MISTAKES, cure

# Whatever role, database, dsn or environment say, values are printed one way (manual, "Client Connection
# Defaults"). These are set in the walsender's own session too, because pgoutput prints there.
_PINNED: Final[Mapping[str, str]] = {
    "datestyle": "ISO",
    "intervalstyle": "iso_8601",
    "timezone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "lc_monetary": "C",
    "quote_all_identifiers": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    # Or CREATE PUBLICATION would be refused.
    "default_transaction_read_only": "off",
}
# Since PostgreSQL 14 and 17. Decoding runs in a transaction itself, which lasts while Kafka holds us up.
_UNLIMITED: Final = "'idle_session_timeout', 'transaction_timeout'"
PIN: Final = "SELECT {}, count(set_config(name, '0', false)) FROM pg_settings WHERE name IN ({})".format(
    ", ".join(f"set_config('{name}', '{value}', false)" for name, value in _PINNED.items()), _UNLIMITED
)

# Run before any other statement. A hot standby refuses every query of a session in serializable isolation.
# Functions of users' schemas may fit a call better than the server's own, and would run with our rights.
_FIRST: Final = (
    "SET default_transaction_isolation TO 'read committed'",
    "SET search_path TO pg_catalog",
)

# When the server was started, in microseconds since 1970: it differs between two servers of a cluster.
STARTED_US: Final = "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint"

_CONNECT_TIMEOUT_S: Final = 10
# How long the first answer may take once the server has let us in.
_PATIENCE_S: Final = 10.0
# How long the other host's TCP may acknowledge nothing that we send. The default is a quarter of an hour, and
# nothing else shows that the network swallows only the stream.
_UNACKNOWLEDGED_MS: Final = 60_000

# SQLSTATE classes and codes of trouble that passes (manual, "PostgreSQL Error Codes").
_PASSING: Final = ("08", "40", "53", "57", "58", "XX000")
# A character that is invalid in one encoding, or has no equivalent in the other.
_NO_UTF_8: Final = ("22021", "22P05")
_UNDEFINED_FILE: Final = "58P01"
# The name of a WAL file, whatever language the server speaks (manual, "WAL Internals").
_SEGMENT: Final = re.compile("[0-9A-F]{24}")
_IN_USE: Final = "55006"
_UNDEFINED_OBJECT: Final = "42704"
_NOT_IN_PREREQUISITE_STATE: Final = "55000"

# PostgreSQL 14 to 18.4: the error if streaming does not find a table that a large transaction altered, rolled
# back to a savepoint, and altered again. Sent whole at its commit, that transaction is no trouble. From 15 on
# also if a PREPARE was rolled back before it is decoded and the slot has two-phase commit.
_UNMAPPED: Final = ("could not map filenode", "could not map filenumber")

# The limit is a gigabyte, for a printed value and for a row of them.
_PROGRAM_LIMIT_EXCEEDED: Final = "54000"
_UNPRINTABLE: Final = "invalid memory alloc request size"

# libpq reports a refused connection only as text, so these are all there is to go by.
_REFUSALS: Final = (
    "password authentication failed",
    "authentication failed",
    "no password supplied",
    "does not exist",
    "no pg_hba.conf entry",
    "permission denied",
    "must be superuser",
    "not permitted to log in",
    "certificate",
    "does not support SSL",
    *MISTAKES,
)
# What libpq adds if that password was refused, and it came from a file.
_FROM_FILE: Final = "password retrieved from file"


async def connect(dsn: str, **more: str) -> psycopg.AsyncConnection[tuple[Any, ...]]:
    """An autocommit connection with our session settings, which finds nothing outside pg_catalog by itself.

    Raises SourceUnavailable, or SetupError if the server refuses us.
    """
    given = conninfo_to_dict(dsn)
    if not (given.get("connect_timeout") or os.environ.get("PGCONNECT_TIMEOUT")):
        more["connect_timeout"] = str(_CONNECT_TIMEOUT_S)
    if not given.get("tcp_user_timeout"):
        more["tcp_user_timeout"] = str(_UNACKNOWLEDGED_MS)
    options = make_conninfo(dsn, client_encoding="UTF8", fallback_application_name="pgrelay", **more)
    try:
        connection = await psycopg.AsyncConnection.connect(options, autocommit=True)
        await _pin(connection)
    except psycopg.Error as error:
        raise connection_error(error, dsn) from error
    except UnicodeError as error:
        # A name that can't be looked up, which is no OSError. One in the configuration was refused before.
        raise SetupError(f"invalid host name: {one_line(error)}; correct PGHOST") from error
    return connection


async def _pin(connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> None:
    """Pin the session's settings, or close it. Raises SourceUnavailable if the server does not answer."""
    loop = asyncio.get_running_loop()
    timer = loop.call_later(_PATIENCE_S, hang_up, connection)
    try:
        for statement in _FIRST:
            await connection.execute(statement)
        await connection.execute(PIN)
    except BaseException as error:
        await connection.close()
        if isinstance(error, psycopg.OperationalError) and loop.time() >= timer.when():
            text = f"Postgres has let us in, but has not answered for {_PATIENCE_S:g} s"
            raise SourceUnavailable(text) from error
        raise
    finally:
        timer.cancel()


def hang_up(connection: psycopg.AsyncConnection[Any]) -> None:
    """End the wait for an answer that does not come.

    Cancelling psycopg's query is no way out: it asks the server to cancel, and waits for an answer again.
    """
    with socket.socket(fileno=os.dup(connection.fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)


def connection_error(error: psycopg.Error, dsn: str) -> PgrelayError:
    """The error for a failed connection: most failures pass, a refusal does not."""
    # libpq adds a question, `Is the server running on that host?`; the cure answers it.
    text = one_line("\n".join(line for line in str(error).splitlines() if not line.endswith("?")))
    if any(refusal in text for refusal in _REFUSALS):
        refused = PasswordRefused if _FROM_FILE in text else SetupError
        return refused(f"source.dsn: {text}; {cure(text, dsn)}")
    return SourceUnavailable(f"Postgres can't be reached: {text}; {cure(text, dsn)}")


def server_error(sqlstate: str | None, text: str, context: str = "") -> PgrelayError:
    """Our error for one of the server's, by its SQLSTATE; an unknown one stops the relay.

    `context` is the server's CONTEXT field; while it decodes, that has an LSN.
    """
    if sqlstate == _UNDEFINED_FILE:
        if _SEGMENT.search(text):
            return GapError(f"{text}: changes are gone from the WAL; {BEGIN_ANEW}")
        return SetupError(f"{text}: the server lacks a file of its own that is not WAL; repair the server")
    if sqlstate == _NOT_IN_PREREQUISITE_STATE:
        return GapError(f"{text}; {BEGIN_ANEW}")
    if sqlstate == _UNDEFINED_OBJECT:
        return SetupError(
            f"{text}; create it, or correct source.slot and source.publications; if it was dropped and "
            f"re-created, rows written in between can't be decoded: {BEGIN_ANEW}"
        )
    if sqlstate == _IN_USE:
        return SourceUnavailable(f"{text}; another relay or client has it: this one takes over when it goes")
    undecoded = _undecoded(sqlstate, text, context)
    if undecoded is not None:
        return undecoded
    if sqlstate is None or sqlstate.startswith(_PASSING):
        return SourceUnavailable(text)
    if context:
        return SetupError(
            f"{text} ({context}): the server can't decode this with the publication as it was; {BEGIN_ANEW}"
        )
    return SetupError(text)


def _undecoded(sqlstate: str | None, text: str, context: str) -> PgrelayError | None:
    """The error if it is known that the server can't send such a change; None for anything else."""
    if sqlstate in _NO_UTF_8:
        return RecordError(
            f"the server can't send a row: {text} ({context}); correct all such values, then {BEGIN_ANEW}"
        )
    if text.startswith(_UNPRINTABLE) or (sqlstate == _PROGRAM_LIMIT_EXCEEDED and context):
        return SetupError(
            f"the server can't send a row: {text} ({context}): as text it is too large for Postgres; set "
            f"source.binary: true, and if that does not help {BEGIN_ANEW}"
        )
    if text.startswith(_UNMAPPED):
        return StreamingFailed(
            f"{text}: a bug in Postgres's streaming; set source.streaming: off, which auto comes to by "
            "itself; if that does not help and source.two_phase is on: see docs/operations.md, A transaction "
            "that Postgres can't stream"
        )
    return None


def query_error(error: psycopg.Error) -> PgrelayError:
    """`server_error` for an error that psycopg raised, which is outside a stream."""
    if error.sqlstate == _NOT_IN_PREREQUISITE_STATE:
        # About the server, such as its wal_level; for a slot, the stream's start says so.
        return SetupError(f"{one_line(error)}; change that on the server, and restart it")
    if error.sqlstate in _NO_UTF_8:
        # These queries read no rows of users' tables.
        return SetupError(
            f"the server can't send a name: {one_line(error)}; rename the table, column or type that is not "
            "UTF-8"
        )
    return server_error(error.sqlstate, one_line(error))


def one_line(error: BaseException | str) -> str:
    """The lines joined by commas: a semicolon would mark what follows as the cure."""
    return ", ".join(line.strip() for line in str(error).splitlines() if line.strip())
