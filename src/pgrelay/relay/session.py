"""The life of one connection: from START_REPLICATION until it is stopped or something breaks.

Theory of operation. The loop runs in turns. A turn takes in Kafka's delivery reports, moves the flush LSN,
sends a status update if one is due, and then does one bounded slice of work, the first of these that applies:

1. wait for the side task that is running: nothing below happens until it has finished
2. hand over records that the producer had no room for; until they are gone, nothing else is read or encoded
3. start a side task: a due commit to Kafka (exactly once), or what the encoder needs from outside
4. encode what was fed to the encoder earlier and is not encoded yet
5. start a side task: ask which subtransactions of a transaction that has just ended were rolled back
6. take in a slice, from the spool or from the socket, and encode it: see intake.py

After a refused record, a session may be `serial`: it does 3 to 6 only once the transaction before is
confirmed, but a due commit does not wait. Memory is bounded by one slice, the ledger and the producer's
queue, and keepalives are answered in the middle of any transaction. If there is nothing to do, the loop waits
until bytes arrive, a report may have come, the next status update or server poll is due, or a side task or
poll has finished. Nothing awaits per row.

A session ends by returning, when asked to stop, or by raising. Either way it confirms nothing that is not
acknowledged, and the next session begins at the ledger's flush LSN.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum, auto
from typing import Final

from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.events import Watermark
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.records import EVERY_PARTITION, Segment
from pgrelay.errors import PgrelayError, SourceUnavailable
from pgrelay.kafka.sink import Sink
from pgrelay.metrics import Metrics
from pgrelay.postgres.source import Source
from pgrelay.progress import Ledger
from pgrelay.relay.confirmations import Confirmations
from pgrelay.relay.entries import Entries
from pgrelay.relay.guarantee import Commit, DeliveryGuarantee
from pgrelay.relay.intake import Intake
from pgrelay.relay.outbox import Outbox
from pgrelay.relay.server_poll import ServerPoll
from pgrelay.relay.side_task import SideTask
from pgrelay.relay.silence import Silence
from pgrelay.relay.supply import Supply

# While records are in flight: the shortest and the longest wait before looking for reports again.
_MIN_WAIT_S: Final = 0.001
_MAX_WAIT_S: Final = 0.05

# Inside a streamed segment. Reading rows one by one is expensive at both ends, so let a hundred arrive.
_SEGMENT_WAIT_S: Final = 0.004

# How long a stop waits for the last position once all else is acknowledged; without it, rows come again.
_POSITION_WAIT_S: Final = 2.0


class WaitFor(Enum):
    """What to wait for after a turn, besides the next status update and server poll."""

    NOTHING = auto()
    # Nothing is read during these two, so bytes that arrive must not end the wait.
    SIDE_TASK = auto()
    REPORT = auto()
    BYTES = auto()


class Session:
    """Its parts are public for the observer, the daemon and tests."""

    def __init__(
        self,
        *,
        source: Source,
        sink: Sink,
        assembler: Assembler,
        encoder: Encoder,
        ledger: Ledger,
        metrics: Metrics,
        confirmations: Confirmations,
        guarantee: DeliveryGuarantee,
        serial_until: int,
        supply: Supply,
        server_poll: ServerPoll,
    ) -> None:
        self.source = source
        self.sink = sink
        self.assembler = assembler
        self.encoder = encoder
        self.ledger = ledger
        self.guarantee = guarantee
        self.confirmations = confirmations
        self.server_poll = server_poll
        self.side_task = SideTask(source.wake)
        self._metrics = metrics
        self._serial_until = serial_until
        self._supply = supply
        self._report_wait_s = _MIN_WAIT_S
        self._silence = Silence()
        self._intake = Intake(source, assembler, ledger, confirmations, self._silence)
        self._outbox = Outbox()
        self.entries = Entries(sink, ledger, self._outbox, guarantee)

    async def run(self, stop: asyncio.Event, on_turn: "Callable[[Session], None]") -> None:
        """Relay until `stop` is set; `on_turn` is called once a turn, never per row."""
        recovery = self.guarantee.recover()
        if recovery is not None:
            self._start_side_task(recovery)
        try:
            while not stop.is_set():
                self._acknowledge()
                on_turn(self)
                self.server_poll.turn(self.ledger.flush_lsn)
                self._silence.check(self.server_poll.wal)
                wait_for = self._work()
                if wait_for is WaitFor.NOTHING:
                    # Let signals and other tasks have their turn.
                    await asyncio.sleep(0)
                else:
                    await self._wait(wait_for)
        finally:
            await self.server_poll.close()
            if not self.side_task.committing:
                # A running commit must finish, or nobody would know whether it took effect.
                await self.side_task.cancel()

    async def finish(self, grace_s: float) -> bool:
        """Wait up to `grace_s` for what is in flight, and a moment more for its position, and confirm it.

        False if whole transactions are left: time ran out, Kafka refused one of them, or (exactly once) a
        commit would have covered half of the current one. Raises what fails meanwhile, after confirming how
        far the rest had come.
        """
        try:
            drained = await self.sink.drain(self._finishing, grace_s)
            if drained:
                await self.sink.drain(self._writing_position, _POSITION_WAIT_S)
        except (PgrelayError, asyncio.CancelledError):
            # What was acknowledged since the last status update would come again.
            self._advance()
            with contextlib.suppress(SourceUnavailable):
                self.confirmations.send()
            raise
        self.confirmations.send()
        return drained and not self.ledger.has_unacknowledged

    async def close(self) -> None:
        """Drop whatever is left, including a commit that has failed or not ended."""
        try:
            await self.side_task.cancel()
        finally:
            # Even if cancelled, as by a second request to stop: another relay may want the directory.
            self.assembler.close()
            self.assembler.spool.close()

    def _finishing(self) -> bool:
        """Like `_settling`, with status updates: the server may drop a silent client within the grace."""
        unsettled = self._settling()
        self.confirmations.turn()
        return unsettled

    def _writing_position(self) -> bool:
        """Write the position; true until Kafka has it."""
        self.confirmations.turn(at_once=True)
        return self.guarantee.confirmable_lsn < self.ledger.flush_lsn

    async def settle(self, timeout_s: float) -> None:
        """After trouble elsewhere: wait up to `timeout_s` for whole transactions to be acknowledged."""
        await self.sink.drain(self._settling, timeout_s)

    def _settling(self) -> bool:
        """True while Kafka may still acknowledge a whole transaction.

        Hands over what the producer had no room for, and commits it, unless something was refused.
        """
        if not self.side_task.finished():
            return True
        self._advance()
        refused = self._refused
        if not self.guarantee.may_settle(refused=refused):
            return False
        if not refused:
            self._hand_over()
            if not self._outbox:
                self._commit(self.guarantee.commit())
        return True

    @property
    def serial(self) -> bool:
        """Send a transaction only once the one before is confirmed, to know which one is refused.

        True until everything is confirmed that an earlier session had read when Kafka refused part of it.
        """
        return self.ledger.flush_lsn < self._serial_until

    def _awaits_previous(self) -> bool:
        if not self.serial or self.ledger.in_transaction:
            return False
        return self.guarantee.awaits_confirmation

    @property
    def _refused(self) -> bool:
        """The producer, or a broker, has refused a record of this session for good."""
        return self._outbox.refused or self.sink.failures.failed

    def _advance(self) -> None:
        passed = self.ledger.advance()
        self._metrics.transactions += len(passed)
        for transaction in passed:
            if transaction.commit_us is not None:
                self._metrics.observe_delivery(transaction.commit_us)

    def _acknowledge(self) -> None:
        if self.sink.poll():
            self._report_wait_s = _MIN_WAIT_S
        self._advance()
        self.confirmations.turn(at_once=self.serial)

    def _work(self) -> WaitFor:
        """Do one slice, or start a side task; returns what to wait for before the next."""
        if not self.side_task.finished():
            return WaitFor.SIDE_TASK
        if self._outbox:
            return WaitFor.NOTHING if self._hand_over() else WaitFor.REPORT
        awaits_previous = self._awaits_previous()
        if self._commit(self.guarantee.due_commit(nothing_else=awaits_previous)):
            return WaitFor.SIDE_TASK
        if awaits_previous:
            return WaitFor.REPORT
        if self.encoder.need is not None:
            return self._start_side_task(self._supply.meet(self.encoder.need))
        if not self.encoder.pending:
            if self.assembler.in_doubt:
                return self._start_side_task(self._discard_rolled_back(self.assembler.in_doubt))
            if not self._intake.take_in():
                if self._commit(self.guarantee.due_commit(nothing_else=True)):
                    return WaitFor.SIDE_TASK
                return WaitFor.REPORT if self.ledger.full else WaitFor.BYTES
            self.encoder.feed(self.assembler.take_events())
        self._encode()
        return WaitFor.NOTHING

    async def _discard_rolled_back(self, subxids: Sequence[int]) -> None:
        self.assembler.resolve(await self._supply.rolled_back(subxids))
        self.encoder.feed(self.assembler.take_events())

    def _commit(self, commit: Commit | None) -> bool:
        """Begin the commit to Kafka, if there is one."""
        if commit is None:
            return False
        assert not self._outbox, "a commit covers all that entered the ledger"
        self.side_task.start(commit, commit=True)
        return True

    def _start_side_task(self, work: Coroutine[None, None, None]) -> WaitFor:
        self.side_task.start(work)
        # Nothing is read until it has finished, so transactions may pile up.
        self._intake.behind = True
        return WaitFor.SIDE_TASK

    def _encode(self) -> None:
        """Encode what was fed, enter it into the ledger and the outbox, and hand it to the producer."""
        to_end = self.serial or self.guarantee.wants_boundary
        encoded = self.encoder.encode(time.time_ns() // 1000, to_end)
        truncates = [out for out in encoded if isinstance(out, Segment) and out.has_truncate]
        if truncates:
            self._start_side_task(self._enter_truncates(truncates, encoded))
        else:
            self._enter(encoded)

    async def _enter_truncates(self, truncates: list[Segment], encoded: list[Segment | Watermark]) -> None:
        """A truncate goes to every partition of its topic, which may have more of them by now."""
        records = [record for segment in truncates for record in segment.records]
        await self.sink.topics.refresh_partitions(
            {topic for topic, _, _, _, partition in records if partition == EVERY_PARTITION}
        )
        self._enter(encoded)

    def _enter(self, encoded: list[Segment | Watermark]) -> None:
        self.entries.enter(encoded)
        self._hand_over()

    def _hand_over(self) -> bool:
        """Hand the outbox to the producer; false if it has no room for anything now."""
        return self._outbox.hand_over(self.sink.produce)

    async def _wait(self, wait_for: WaitFor) -> None:
        """Wait for that, but no longer than until a report may have come, or something is due."""
        # The outbox needs room in the queue.
        if (self.guarantee.flushes_early or self._outbox) and self.sink.flush_early():
            return
        wait_s = min(self.confirmations.due_in_s(), self.server_poll.due_in_s())
        waiting = self.guarantee.position_unacknowledged_s is not None or not self.ledger.idle
        if waiting or self._outbox or wait_for is WaitFor.SIDE_TASK:
            wait_s = min(wait_s, self._report_wait_s)
            self._report_wait_s = min(self._report_wait_s * 2, _MAX_WAIT_S)
        if wait_for is WaitFor.SIDE_TASK:
            await self.side_task.wait(max(wait_s, 0))
        elif wait_for is WaitFor.REPORT:
            await asyncio.sleep(max(wait_s, 0))
        else:
            if self.assembler.in_segment:
                # The server flushes every row, but these wait for a commit anyway, so let many arrive.
                await asyncio.sleep(_SEGMENT_WAIT_S)
            await self.source.wait_readable(max(wait_s, 0))
