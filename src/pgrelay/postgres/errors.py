"""Postgres's errors: which are transient, and the cures of the others. For connections: cures.py."""

import re
from typing import Final

import psycopg

from pgrelay.errors import (
    RESET_CURE,
    GapError,
    PasswordRefused,
    PgrelayError,
    RecordError,
    SetupError,
    SourceUnavailable,
    StreamingFailed,
)
from pgrelay.postgres.cures import MISTAKES, cure

# SQLSTATE classes and codes of transient errors (manual, "PostgreSQL Error Codes").
_TRANSIENT: Final = ("08", "40", "53", "57", "58", "XX000")
# A character that is invalid in one encoding, or has no equivalent in the other.
_NO_UTF_8: Final = ("22021", "22P05")
_UNDEFINED_FILE: Final = "58P01"
# The name of a WAL file, which no translation changes (manual, "WAL Internals").
_SEGMENT: Final = re.compile("[0-9A-F]{24}")
_IN_USE: Final = "55006"
_UNDEFINED_OBJECT: Final = "42704"
_NOT_IN_PREREQUISITE_STATE: Final = "55000"

# PostgreSQL 14 to 18.6: the error if streaming does not find a table that a large transaction altered, rolled
# back to a savepoint, and altered again. The same transaction can be sent as a whole at its commit. Since 15
# also if a PREPARE was rolled back before it is decoded, and the slot has two-phase commit.
_UNMAPPED: Final = ("could not map filenode", "could not map filenumber")

# The limit is a gigabyte, for a printed value and for a row of them.
_PROGRAM_LIMIT_EXCEEDED: Final = "54000"
_UNPRINTABLE: Final = "invalid memory alloc request size"

# libpq reports a refused connection only as text, so there is nothing else to go by.
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
# What libpq adds if the password was refused and came from a file.
_FROM_FILE: Final = "password retrieved from file"


def connection_error(error: psycopg.Error, dsn: str) -> PgrelayError:
    """The error for a failed connection: most failures are transient, a refusal is not."""
    # Without libpq's question `Is the server running on that host?`, which the cure answers.
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
            return GapError(f"{text}: changes are gone from the WAL; {RESET_CURE}")
        return SetupError(f"{text}: the server lacks a file of its own that is not WAL; repair the server")
    if sqlstate == _NOT_IN_PREREQUISITE_STATE:
        return GapError(f"{text}; {RESET_CURE}")
    if sqlstate == _UNDEFINED_OBJECT:
        return SetupError(
            f"{text}; create it, or correct source.slot and source.publications; if it was dropped and "
            f"re-created, rows written in between can't be decoded: {RESET_CURE}"
        )
    if sqlstate == _IN_USE:
        return SourceUnavailable(f"{text}; another relay or client has it: this one takes over when it goes")
    undecodable = _undecodable_error(sqlstate, text, context)
    if undecodable is not None:
        return undecodable
    if sqlstate is None or sqlstate.startswith(_TRANSIENT):
        return SourceUnavailable(text)
    if context:
        return SetupError(
            f"{text} ({context}): the server can't decode this with the publication as it was; {RESET_CURE}"
        )
    return SetupError(text)


def _undecodable_error(sqlstate: str | None, text: str, context: str) -> PgrelayError | None:
    """The error if this means that the server can't send a change; else None."""
    if sqlstate in _NO_UTF_8:
        return RecordError(
            f"the server can't send a row: {text} ({context}); correct all such values, then {RESET_CURE}"
        )
    if text.startswith(_UNPRINTABLE) or (sqlstate == _PROGRAM_LIMIT_EXCEEDED and context):
        return SetupError(
            f"the server can't send a row: {text} ({context}): as text it is too large for Postgres; set "
            f"source.binary: true, and if that does not help {RESET_CURE}"
        )
    if text.startswith(_UNMAPPED):
        return StreamingFailed(
            f"{text}: a bug in Postgres's streaming; set source.streaming: off, which auto comes to by "
            "itself; if that does not help and source.two_phase is on: see docs/operations.md, A transaction "
            "that Postgres can't stream"
        )
    return None


def query_error(error: psycopg.Error) -> PgrelayError:
    """`server_error` for an error that psycopg raised outside of a stream."""
    if error.sqlstate == _NOT_IN_PREREQUISITE_STATE:
        # It concerns the server, such as its wal_level. About a slot, START_REPLICATION would say so.
        return SetupError(f"{one_line(error)}; change that on the server, and restart it")
    if error.sqlstate in _NO_UTF_8:
        # Our queries read no rows of users' tables.
        return SetupError(
            f"the server can't send a name: {one_line(error)}; rename the table, column or type that is not "
            "UTF-8"
        )
    return server_error(error.sqlstate, one_line(error))


def one_line(error: BaseException | str) -> str:
    """The lines joined by commas: a semicolon would mark what follows as the cure."""
    return ", ".join(line.strip() for line in str(error).splitlines() if line.strip())
