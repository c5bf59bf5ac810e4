"""What differs between at-least-once and exactly-once delivery: how a session starts, and how it runs.

The configuration decides which it is, where the sink is made: in starts.py. All others only ask. Under both,
Postgres is told no more than the ledger has as acknowledged.
"""

from collections.abc import Coroutine
from typing import Protocol

from pgrelay.assembly.assembler import Assembler
from pgrelay.encode.encoder import Encoder
from pgrelay.kafka.sink import Sink
from pgrelay.postgres.slots import Slot
from pgrelay.progress import InFlight, Ledger
from pgrelay.relay.server import Server

Commit = Coroutine[None, None, None]


class DeliveryGuarantee(Protocol):
    """Asked a few times in a turn, and once for a segment or a position; never for a row."""

    @property
    def recovering(self) -> bool:
        """It is not known yet what was delivered."""

    @property
    def flushes_early(self) -> bool:
        """Whether to send what is queued without lingering, if there is nothing else to do."""

    @property
    def sink_per_session(self) -> bool:
        """Whether the session leaves a sink that the next can't use."""

    @property
    def wants_boundary(self) -> bool:
        """Whether encoding should pause at the next end of a Postgres transaction."""

    @property
    def relayed_lsn(self) -> int:
        """The earliest WAL end that includes every transaction whose records consumers may have.

        They may have them before Kafka has acknowledged them. 0 if they have none yet.
        """

    @property
    def oldest_progress(self) -> tuple[int, int] | None:
        """Changes whenever Kafka acknowledges a record of the oldest transaction.

        None if it has them all, or if records are not acknowledged one by one.
        """

    def recover(self) -> Coroutine[None, None, None] | None:
        """Learn what was delivered, before anything is encoded; None if that is known."""

    def on_entry(self, entry: InFlight, min_wal_end: int, *, has_records: bool) -> None:
        """A segment of a transaction, or a position, entered the ledger.

        Whoever has one of the segment's records has received WAL up to `min_wal_end`, at least.
        """

    def due_commit(self, *, nothing_else: bool) -> Commit | None:
        """The commit to Kafka that is due now, if one is. `nothing_else`: there is nothing else to do.

        Everything that entered must have been handed to the producer; so for `commit`.
        """

    def commit(self) -> Commit | None:
        """Commit to Kafka what has entered, due or not; None if this guarantee has no commits."""

    def may_settle(self, *, refused: bool) -> bool:
        """Whether whole transactions wait for Kafka, and it may still acknowledge one.

        `refused`: it has refused a record for good, which is never acknowledged, nor what comes after it.
        """

    @property
    def awaits_confirmation(self) -> bool:
        """Between transactions: whether one, or its position, is still to be acknowledged."""

    @property
    def confirmable_lsn(self) -> int:
        """What Postgres may be told: the ledger's flush LSN, or less if Kafka lacks that position yet."""

    def write_position(self, *, at_once: bool) -> None:
        """Write the position to Kafka, if it is due and none is under way.

        `at_once`: it is due even shortly after the last one.
        """

    def position_due_in_s(self) -> float:
        """Seconds until `write_position` has something to write; inf if nothing, or if one is under way."""

    @property
    def position_unacknowledged_s(self) -> float | None:
        """Seconds since the position under way was written, while the slot stands still; None without one."""


class DeliveryMode(Protocol):
    """A sink, and how sessions start with it."""

    @property
    def sink(self) -> Sink: ...

    async def check_against_kafka(self, server: Server, slot: Slot) -> None:
        """Check that the slot skips nothing, if that can be known before the stream begins.

        Raises GapError, PositionError.
        """

    def guarantee(
        self, server: Server, slot: Slot, ledger: Ledger, assembler: Assembler, encoder: Encoder
    ) -> DeliveryGuarantee:
        """That of a session whose stream has begun; `slot` as it was then."""
