"""Every error that pgrelay raises on purpose, and the one table that says what follows from it.

A message is one line for the operator: what is wrong, where (file and key, or LSN, table and column),
and the cure. What becomes of an error is decided by its class, in `verdict`, but for a RecordRefused, which
`errors.on_record: dead_letter` lets the relay try again as a dead letter (relay/refusals.py):

retry   the trouble passes by itself: reconnect with back-off, never end the process
stop    the process ends with the class's exit code, and nothing unacknowledged was confirmed
"""

from enum import Enum
from typing import ClassVar, Final, Self

from pgrelay.lsn import format_lsn

# The cure of a gap.
BEGIN_ANEW: Final = "begin anew with pgrelay reset, and copy the tables"


class PgrelayError(Exception):
    """The root. `exit_code` is what the process ends with where the verdict is to stop."""

    exit_code: ClassVar[int] = 1

    def at(self, lsn: int) -> Self:
        """The same error naming an LSN, for those raised below the place that knows it."""
        return type(self)(f"{self} (LSN {format_lsn(lsn)})")


class SetupError(PgrelayError):
    """The configuration or what it points at (server, slot, publication, topic, rights) is wrong."""

    exit_code: ClassVar[int] = 2


class PositionError(SetupError):
    """A position can't be read, or not be held against the server: changes may be missing or not."""


class GapError(PgrelayError):
    """The stream cannot go on without losing data: slot lost, moved by another, or another cluster's."""

    exit_code: ClassVar[int] = 3


class RecordError(PgrelayError):
    """One record can't be encoded or delivered; it ends the process where `errors.on_record` says stop.

    `table` is `schema.table`, `value` the column's bytes as the server sent them; all empty where not known.
    `lsn` is that of the change, `commit_lsn` that of its transaction, `topic` the record's; 0 and empty where
    not known.
    """

    exit_code: ClassVar[int] = 4

    def __init__(self, text: str, table: str = "", column: str = "", value: bytes | None = None) -> None:
        super().__init__(text)
        self.table = table
        self.column = column
        self.value = value
        self.lsn = 0
        self.commit_lsn = 0
        self.topic = ""

    def at(self, lsn: int) -> Self:
        error = type(self)(f"{self} (LSN {format_lsn(lsn)})", self.table, self.column, self.value)
        error.lsn = lsn
        return error


class RecordRefused(RecordError):
    """Kafka refuses a record for what it is."""


class ProtocolError(PgrelayError):
    """Bytes from the server that are not what the protocol says: truncated, oversized or unknown."""


class Interrupted(PgrelayError):
    """A command was asked to stop before it had done what it is for."""

    exit_code: ClassVar[int] = 130


class TransientError(PgrelayError):
    """Trouble that passes: the session is torn down and begun again from the confirmed LSN."""


class SourceUnavailable(TransientError):
    """Postgres can't be reached, is shutting down, or cut the connection; or the slot is in use."""


class StandbyNotReady(SourceUnavailable):
    """The server is a standby, and is not what we wait for yet; that may take until somebody acts."""


class KafkaUnavailable(TransientError):
    """The broker, or the producer's identity at it, is gone; a new producer is needed."""


class RegistryUnavailable(TransientError):
    """The schema registry does not answer, or answers that it is ill."""


class SpoolError(TransientError):
    """The spool directory can't be written or read (disk full, I/O error); nothing was confirmed."""


class SpoolDamaged(SpoolError):
    """A file of the spool is not what was written to it; it passes where the server sends its rows again."""


def cut_at_cure(error: BaseException) -> tuple[str, str]:
    """What is wrong; and the cure, which stands behind the last "; " and holds none, empty where missing."""
    what, joint, cure = str(error).rpartition("; ")
    return (what, cure) if joint else (cure, "")


class Verdict(Enum):
    RETRY = "retry"
    STOP = "stop"


def verdict(error: BaseException) -> Verdict:
    """What follows from an error. Everything that is not known to pass by itself stops the process."""
    return Verdict.RETRY if isinstance(error, TransientError) else Verdict.STOP


def exit_code(error: BaseException) -> int:
    """The process's exit code for an error that stops it."""
    return error.exit_code if isinstance(error, PgrelayError) else 1
