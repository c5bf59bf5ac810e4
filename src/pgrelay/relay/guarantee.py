"""What differs between at-least-once and exactly-once delivery: how a session starts, and how it runs.

The configuration decides which it is, in session_factory.py, where the sink is made; all other code only uses
these protocols. Under both, Postgres is told no more than the ledger has as acknowledged.
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
    """One session's guarantee. Called a few times a turn, and once per segment or position; never per row."""

    @property
    def recovering(self) -> bool:
        """True until it is known what was delivered."""

    @property
    def flushes_early(self) -> bool:
        """Whether to send what is queued without lingering when there is nothing else to do."""

    @property
    def sink_per_session(self) -> bool:
        """Whether each session needs a sink of its own."""

    @property
    def wants_boundary(self) -> bool:
        """Whether encoding should pause at the next end of a Postgres transaction."""

    @property
    def relayed_lsn(self) -> int:
        """Where WAL must end at least to include every transaction whose records consumers may have.

        Consumers may have them before Kafka has acknowledged them. 0 if they have none yet.
        """

    @property
    def oldest_progress(self) -> tuple[int, int] | None:
        """A value that changes whenever Kafka acknowledges a record of the oldest transaction.

        None if all of its records are acknowledged, or if records are not acknowledged one by one.
        """

    def recover(self) -> Coroutine[None, None, None] | None:
        """Learn what was delivered, before anything is encoded; None if there is nothing to learn."""

    def on_entry(self, entry: InFlight, min_wal_end: int, *, has_records: bool) -> None:
        """A segment of a transaction, or a position, was entered into the ledger.

        A server that sent any of the segment's records has WAL up to `min_wal_end` at least.
        """

    def due_commit(self, *, nothing_else: bool) -> Commit | None:
        """The commit to Kafka that is due now, if one is. `nothing_else`: there is nothing else to do.

        Everything entered must have been handed to the producer; the same holds for `commit`.
        """

    def commit(self) -> Commit | None:
        """Commit to Kafka what was entered, due or not; None if this guarantee has no commits."""

    def may_settle(self, *, refused: bool) -> bool:
        """Whether whole transactions wait for Kafka, and it may still acknowledge one.

        `refused`: it has refused a record for good; neither that nor what follows it will be acknowledged.
        """

    @property
    def awaits_confirmation(self) -> bool:
        """Between transactions: whether one, or its position, is still to be acknowledged."""

    @property
    def confirmable_lsn(self) -> int:
        """What Postgres may be told: the ledger's flush LSN, or less if Kafka lacks that position yet."""

    def write_position(self, *, at_once: bool) -> None:
        """Write the position to Kafka, if it is due and none is in flight.

        `at_once`: it is due even if the last one was just written.
        """

    def position_due_in_s(self) -> float:
        """Seconds until `write_position` has something to write; inf if nothing, or if one is in flight."""

    @property
    def position_unacknowledged_s(self) -> float | None:
        """Seconds since the position in flight was written, while the slot can't move; None if none is."""


class DeliveryMode(Protocol):
    """At least once or exactly once, as configured: a sink, and how sessions start with it."""

    @property
    def sink(self) -> Sink: ...

    async def check_against_kafka(self, server: Server, slot: Slot) -> None:
        """Check that the slot would skip nothing, if that can be known before the stream begins.

        Raises GapError, PositionError.
        """

    def guarantee(
        self, server: Server, slot: Slot, ledger: Ledger, assembler: Assembler, encoder: Encoder
    ) -> DeliveryGuarantee:
        """The guarantee of a session whose stream has begun; `slot` as it was then."""
