"""Sessions, one after the other, with whatever Kafka answers and wherever a kill comes. There is no server.

What must hold: Postgres is told of no transaction of which Kafka lacks a record. In the end Kafka has every
record, in order; exactly once, readers of committed records see each of them once.
"""

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from typing import Final

import pytest
from confluent_kafka import KafkaError, Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgrelay.encode.needs import Need
from pgrelay.errors import KafkaUnavailable
from pgrelay.kafka.offsets import Position
from pgrelay.progress import Ledger
from pgrelay.relay.session import Session
from pgrelay.relay.supply import Supply
from tests.clock import Clock
from tests.encode.encoding import meet
from tests.kafka.producer import PASSED_OVER, FakeProducer
from tests.kafka.sinks import FakeOffsets, sink_of, transactions_of
from tests.relay.relaying import RELATION, TABLE
from tests.relay.sessions import FakeSource, session_of
from tests.wire import build

TOPIC: Final = "app.public.people"
# One of Kafka's answers: the producer has failed for good, and everything in flight is dropped.
FAILED: Final = KafkaError._FATAL

# One after the other; None acknowledges.
Answers = Sequence[int | None]


class Killed(Exception):
    """The process is."""


class Broker(FakeProducer):
    """Keeps what it has taken, for readers."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[Message] = []

    def answer(self, code: int | None = None) -> None:
        if code == FAILED:
            self.error = KafkaError(FAILED)
            self.purge()
            self.fail(FAILED)
            return
        if code is None:
            self.taken.append(self._sent[0][0])
        super().answer(code)

    def flush(self, timeout_s: float) -> int:
        """Answer everything within a time, as a broker does."""
        left = 0
        while len(self) != left:
            left = len(self)
            super().flush(timeout_s)
        return left

    def answer_some(self, codes: Answers | None) -> None:
        """Answer the oldest records, if there are any. Raises Killed for None."""
        if codes is None:
            raise Killed
        for code in codes:
            if self._sent:
                self.answer(code)

    def ids(self, records: Iterable[Message]) -> list[int]:
        """Those of the rows that readers see of these records."""
        taken = {id(each) for each in self.taken}
        rows = (each for each in records if each.topic() == TOPIC and id(each) in taken)
        return [json.loads(each.key() or b"")["id"] for each in rows]


@dataclass(frozen=True)
class Transaction:
    """Inserts these ids."""

    end_lsn: int
    ids: range

    @property
    def frames(self) -> list[bytes]:
        commit_lsn = self.end_lsn - 8
        rows = (build.insert(TABLE, [str(number)]) for number in self.ids)
        end = build.xlog_data(build.commit(commit_lsn, self.end_lsn), self.end_lsn)
        return [*map(build.xlog_data, (build.begin(commit_lsn), *rows)), end]


class Wal(FakeSource):
    """A server with transactions, which it sends from an LSN on, some frames at a time."""

    def __init__(self, transactions: list[Transaction], start_lsn: int, chunk: int) -> None:
        super().__init__()
        frames = [build.xlog_data(RELATION)]
        for each in transactions:
            if each.end_lsn > start_lsn:
                frames += each.frames
        self._frames = deque(frames)
        self._chunk = chunk

    def read(self, max_frames: int, max_bytes: int) -> list[bytes]:
        return [self._frames.popleft() for _ in range(min(self._chunk, len(self._frames)))]


class Supplied(Supply):
    """Every need is met at once."""

    async def meet(self, need: Need) -> None:
        meet(self._encoder)


class World:
    """What outlives a run: Postgres with these numbers of rows in each transaction, and Kafka."""

    def __init__(self, sizes: list[int], delivery: str, clock: Clock) -> None:
        firsts = accumulate(sizes, initial=0)
        self.transactions = [
            Transaction(0x100 * number, range(first, first + size))
            for number, (first, size) in enumerate(zip(firsts, sizes, strict=False), 1)
        ]
        self.wal_end = self.transactions[-1].end_lsn
        self.confirmed_lsn = 0
        self.read: list[int] = []
        self._delivered: Position | None = None
        self._exactly_once = delivery == "exactly_once"
        self._clock = clock

    async def run(
        self, chunk: int, answers: Iterable[Answers], while_committing: Answers = (), lost: int = 0
    ) -> None:
        """Run a relay. `answers` are Kafka's in each turn; it is killed when there are no more.

        As many as `lost` of its last status updates do not reach the server.
        """
        kafka, source = Broker(), Wal(self.transactions, self.confirmed_lsn, chunk)
        kafka.answers = iter(while_committing)
        offsets = FakeOffsets(self._delivered)
        sink = transactions_of(kafka, offsets) if self._exactly_once else sink_of(kafka)
        ledger = Ledger(self.confirmed_lsn)
        session = session_of(
            source,
            sink,
            ledger,
            keeps_positions=not self._exactly_once,
            wal_end=self.wal_end,
            supply=Supplied,
        )
        stop, turns = asyncio.Event(), iter(answers)

        def turned(session: Session) -> None:
            self._clock.now += 0.05
            if not session.side_task.running:
                kafka.answer_some(next(turns, None))
            if source.confirmed[-1:] == [self.wal_end]:
                stop.set()

        try:
            with contextlib.suppress(Killed, KafkaUnavailable):
                await session.run(stop, turned)
        finally:
            await session.close()
            self._keep(kafka)
            self.confirmed_lsn = max([self.confirmed_lsn, *source.confirmed[: len(source.confirmed) - lost]])

    def _keep(self, kafka: Broker) -> None:
        """Read what the relay has left in Kafka, by committed records only."""
        if not self._exactly_once:
            self.read += kafka.ids(kafka.taken)
            return
        for records in kafka.committed:
            self.read += kafka.ids(records)
        if kafka.committed:
            self._delivered = kafka.positions[-1]


TURN = st.lists(st.sampled_from([None, None, None, None, PASSED_OVER, FAILED]), max_size=4)
RUN = st.tuples(st.integers(1, 6), st.lists(TURN, max_size=12), TURN, st.integers(0, 2))


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=6), runs=st.lists(RUN, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_kafka_answers_nothing_is_lost(
    delivery: str, clock: Clock, sizes: list[int], runs: list[tuple[int, list[Answers], Answers, int]]
) -> None:
    world = World(sizes, delivery, clock)
    everything = [number for transaction in world.transactions for number in transaction.ids]

    async def live() -> None:
        for run in runs:
            await world.run(*run)
            for transaction in world.transactions:
                if transaction.end_lsn <= world.confirmed_lsn:
                    assert {*transaction.ids} <= {*world.read}
        await world.run(3, repeat((None,) * 9))

    asyncio.run(live())
    assert world.confirmed_lsn == world.wal_end
    if delivery == "exactly_once":
        assert world.read == everything
    else:
        last = list(dict.fromkeys(reversed(world.read)))
        assert last[::-1] == everything
