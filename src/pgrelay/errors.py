"""Every error that pgrelay raises on purpose, and what follows from it.

A message is one line for the operator: what is wrong, where (file and key, or LSN, table and column), and the
cure. An error's class decides what happens next: see `verdict`. One exception: after a RecordRefused the
relay begins another session as long as it can learn from it (relay/refusals.py): in smaller batches, or one
transaction after the other; or, under `errors.on_record: dead_letter`, with the record as a dead letter.

retry   the error is transient: reconnect with back-off, never end the process
stop    the process ends with the class's exit code; nothing unacknowledged was confirmed
"""

from enum import Enum
from typing import ClassVar, Final, Literal, Self

from pgrelay.lsn import format_lsn

# What a transient error comes from.
End = Literal["postgres", "kafka", "registry", "spool"]

# The cure of a gap.
RESET_CURE: Final = "run pgrelay reset, then copy the tables"


class PgrelayError(Exception):
    """The base class. `exit_code` is that of the process if the verdict is to stop."""

    exit_code: ClassVar[int] = 1

    def with_lsn(self, lsn: int) -> Self:
        """The same error with an LSN added, for errors raised by code that does not know it."""
        return type(self)(f"{self} (LSN {format_lsn(lsn)})")


class SetupError(PgrelayError):
    """The configuration or what it points at (server, slot, publication, topic, rights) is wrong."""

    exit_code: ClassVar[int] = 2


class PasswordRefused(SetupError):
    """The server refuses the password in the password file, which may yet be replaced there."""


class PositionError(PgrelayError):
    """A position can't be read, or can't be compared with the server, so changes may be missing.

    Not a SetupError: a run may do without the right to read positions, but never ignores an unreadable one.
    """

    exit_code: ClassVar[int] = 2


class GapError(PgrelayError):
    """The stream can't go on without losing data: the slot was lost or moved, or the cluster is another."""

    exit_code: ClassVar[int] = 3


class RecordError(PgrelayError):
    """One record can't be encoded or delivered. It ends the process, unless it becomes a dead letter.

    `table` is `schema.table`, `value` the column's bytes as the server sent them, `lsn` that of the change,
    `commit_lsn` that of its transaction. Unknown ones are empty, None or 0.
    """

    exit_code: ClassVar[int] = 4

    def __init__(self, text: str, table: str = "", column: str = "", value: bytes | None = None) -> None:
        super().__init__(text)
        self.table = table
        self.column = column
        self.value = value
        self.lsn = 0
        self.commit_lsn = 0

    def with_lsn(self, lsn: int) -> Self:
        error = type(self)(f"{self} (LSN {format_lsn(lsn)})", self.table, self.column, self.value)
        error.lsn = lsn
        return error


class RecordRefused(RecordError):
    """Kafka refuses a record of `topic` because of what it is; no retry helps.

    `by_broker`: a broker refused a whole batch; `commit_lsn` is 0 if it is not known which transaction's
    record was to blame. `keyless`: the reason may be that the record has no key.
    """

    def __init__(self, text: str, topic: str = "", commit_lsn: int = 0) -> None:
        super().__init__(text)
        self.topic = topic
        self.commit_lsn = commit_lsn
        # Here, not as defaults of the class: compiled, an exception would not have those.
        self.by_broker = False
        self.keyless = False

    def with_lsn(self, lsn: int) -> Self:
        error = type(self)(f"{self} (LSN {format_lsn(lsn)})", self.topic, self.commit_lsn)
        error.lsn, error.by_broker, error.keyless = lsn, self.by_broker, self.keyless
        return error


class ProtocolError(PgrelayError):
    """Bytes from the server that violate the protocol: truncated, oversized or unknown."""


class Interrupted(PgrelayError):
    """A command was asked to stop before it had finished."""

    exit_code: ClassVar[int] = 130


class TransientError(PgrelayError):
    """An error that passes by itself: the session is closed, and the next one starts from the flush LSN."""

    end: ClassVar[End] = "postgres"


class SourceUnavailable(TransientError):
    """Postgres can't be reached, is shutting down, or cut the connection; or the slot is in use."""


class StandbyNotReady(SourceUnavailable):
    """The server is a standby that can't serve us yet; that may last until an operator acts."""


class StreamingFailed(SourceUnavailable):
    """The server can't send a transaction before its commit, though it can afterwards."""


class KafkaUnavailable(TransientError):
    """The broker can't be reached, or the producer's identity there is lost; a new producer is needed."""

    end: ClassVar[End] = "kafka"


class RegistryUnavailable(TransientError):
    """The schema registry does not answer, or answers with a server error."""

    end: ClassVar[End] = "registry"


class SpoolError(TransientError):
    """The spool directory can't be written or read (disk full, I/O error); nothing was confirmed."""

    end: ClassVar[End] = "spool"


class SpoolDamaged(SpoolError):
    """A spool file does not hold what was written to it. Transient if the server sends its rows again."""


def split_cure(error: BaseException) -> tuple[str, str]:
    """Split a message into what is wrong and the cure: what follows the last "; ", empty if there is none."""
    what, joint, cure = str(error).rpartition("; ")
    return (what, cure) if joint else (cure, "")


class Verdict(Enum):
    RETRY = "retry"
    STOP = "stop"


def verdict(error: BaseException) -> Verdict:
    """What follows from an error. An error that is not known to be transient stops the process."""
    return Verdict.RETRY if isinstance(error, TransientError) else Verdict.STOP


def exit_code(error: BaseException) -> int:
    """The process's exit code for an error that stops it."""
    return error.exit_code if isinstance(error, PgrelayError) else 1
