"""How a session with a refused record ends, and when a session does not read. There is no server."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from pgrelay.assembly.assembler import Assembler
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.records import BY_KEY, Record
from pgrelay.errors import ProtocolError, RecordRefused, SourceUnavailable
from pgrelay.handover import Delivery
from pgrelay.kafka.sink import Sink
from pgrelay.metrics import Metrics
from pgrelay.postgres.source import Source
from pgrelay.progress import InFlight, Ledger
from pgrelay.relay.commits import Commits
from pgrelay.relay.confirmations import Confirmations
from pgrelay.relay.outbox import Outbox
from pgrelay.relay.server_poll import ServerPoll
from pgrelay.relay.session import Session
from tests.wire import build

RECORD: Record = ("t", None, b"v", None, BY_KEY)


class FakeSink(Sink):
    """A producer with one report to come, of an acknowledgement; or a failure that was raised."""

    def __init__(self, entry: InFlight, broker_refused: bool) -> None:
        self._waiting = [entry]
        self.shut_out = False
        self._failure = RecordRefused("refused") if broker_refused else None
        self._refused_batch = None

    @property
    def in_queue(self) -> int:
        return len(self._waiting)

    async def _await_report(self, timeout_s: float, known: object = None) -> None:
        assert known is self._failure
        if self._waiting:
            self._waiting.pop().acknowledged += 1


class FakeCommits(Commits):
    """Something is always pending, and no commit may be asked for."""

    def __init__(self) -> None:
        pass

    @property
    def pending(self) -> bool:
        return True

    async def commit(self) -> None:
        raise AssertionError("a commit would cover the record that was refused")


class Ending(Session):
    """A transaction that ends at 2 is on its way, and one that ends at 4 had a record refused."""

    def __init__(self, commits: Commits | None, broker_refused: bool) -> None:
        self.ledger = Ledger()
        self.ledger.seen(4)
        whole, lacking = self._transaction(2), self._transaction(4)
        self.sink = FakeSink(whole, broker_refused)
        self._commits = commits
        self._careful_until = 0
        self._errand = None
        self._metrics = Metrics()
        self._outbox = Outbox()
        if not broker_refused:
            self._outbox.add(Delivery(lacking, 3, self.sink.refused), [RECORD])
            with pytest.raises(RecordRefused):
                self._outbox.hand_over(refuse)

    def _transaction(self, end_lsn: int) -> InFlight:
        entry = self.ledger.begin(0)
        entry.records = 1
        self.ledger.end(end_lsn)
        return entry


def refuse(records: list[Record], start: int, delivery: Delivery) -> int:
    raise RecordRefused("refused")


BY = pytest.mark.parametrize("broker_refused", [True, False], ids=["broker", "producer"])


@BY
async def test_settling_waits_for_records_before_the_refused_one_only(broker_refused: bool) -> None:
    session = Ending(None, broker_refused)
    await session.settle(10)
    assert session.ledger.flush_lsn == 2
    assert session.ledger.waiting


async def test_settling_does_not_wait_if_kafka_denies_access() -> None:
    session = Ending(None, True)
    session.sink.shut_out = True
    await session.settle(10)
    assert session.sink.in_queue == 1


@BY
async def test_no_commit_covers_a_refused_record(broker_refused: bool) -> None:
    session = Ending(FakeCommits(), broker_refused)
    await session.settle(10)
    assert session.ledger.flush_lsn == 0


class Away(Commits):
    """Kafka or Postgres never answers."""

    def __init__(self) -> None: ...

    async def recover(self) -> None:
        await asyncio.Event().wait()


class Stopped(Session):
    """Exactly once, asked to stop while an errand is under way."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.assembler = cast(Assembler, SimpleNamespace(delivered_lsn=0))
        self.source = cast(Source, SimpleNamespace(wake=lambda: None))
        self.server_poll = cast(ServerPoll, SimpleNamespace(close=self._closed))
        told = SimpleNamespace(turn=lambda: None, send=lambda: None, last_position_pending=lambda: False)
        self.confirmations = cast(Confirmations, told)
        self.committing = False
        self._behind = False
        self._commits = Away()
        self._errand = None
        self._metrics = Metrics()
        self._outbox = Outbox()
        self.sink = FakeSink(InFlight(0), broker_refused=False)

    async def _closed(self) -> None: ...


@pytest.mark.timeout(30)
async def test_a_stop_does_not_wait_for_an_errand_other_than_a_commit() -> None:
    """The grace is for records on their way to Kafka."""
    session, stop = Stopped(), asyncio.Event()
    stop.set()
    await session.run(stop, lambda _: None)
    assert await session.finish(3600)


async def test_a_stop_waits_for_a_commit() -> None:
    """Otherwise nobody would know whether it took effect."""
    session, stop, acknowledged = Stopped(), asyncio.Event(), asyncio.Event()
    stop.set()

    async def commit() -> None:
        await acknowledged.wait()

    class Committing(Commits):
        delivered_lsn = 0

        def __init__(self) -> None: ...

        async def recover(self) -> None:
            # What comes first is recovery; a commit is an errand like it.
            await commit()

    session._commits = Committing()
    session.committing = True
    await session.run(stop, lambda _: None)
    assert session._errand is not None
    assert not session._errand.done()
    acknowledged.set()
    await asyncio.wait([session._errand])
    assert await session.finish(3600)
    assert not session.committing


class FakeSource(Source):
    """Records whether it was read from, or waited for."""

    def __init__(self) -> None:
        self.was_read = self.was_waited_for = False

    async def wait_readable(self, timeout_s: float | None) -> None:
        self.was_waited_for = True

    def read(self, max_frames: int, max_bytes: int) -> list[bytes]:
        self.was_read = True
        return []


class Reading(Session):
    """Has nothing to do except to read."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.source = self.stream = FakeSource()
        self.assembler = cast(Assembler, SimpleNamespace(replaying=False, doubtful=(), in_segment=False))
        self.encoder = cast(Encoder, SimpleNamespace(need=None, pending=False))
        self._commits = None
        self._careful_until = 0
        self._errand = None
        self._outbox = Outbox()
        self._frames = []
        self._taken = 0
        self._behind = False


@pytest.mark.parametrize(("most", "is_read"), [(2, True), (1, False)], ids=["room", "full"])
def test_nothing_is_read_while_the_ledger_is_full(most: int, is_read: bool) -> None:
    ledger = Ledger(most=most)
    ledger.begin(0)
    session = Reading(ledger)
    assert not session._work()
    assert session.stream.was_read == is_read


class Careful(Reading):
    """Reads what an earlier session had read up to 10; a transaction that ends at 5 has one record."""

    def __init__(self) -> None:
        ledger = Ledger()
        ledger.seen(20)
        super().__init__(ledger)
        self.kept = False
        self.confirmations = cast(Confirmations, SimpleNamespace(last_position_pending=lambda: not self.kept))
        self._careful_until = 10
        self.entry = ledger.begin(0)
        self.entry.records = 1

    def reads(self) -> bool:
        self.stream.was_read = False
        assert not self._work()
        return self.stream.was_read


def test_a_careful_session_waits_for_each_transaction_and_its_position() -> None:
    """So what Kafka refuses is of the only one on its way, and what came before is confirmed."""
    session = Careful()
    assert session.reads(), "the transaction has not ended"
    session.ledger.end(5)
    assert not session.reads()
    session.entry.acknowledged = 1
    session.ledger.advance()
    assert not session.reads(), "its position is not kept"
    session.kept = True
    assert session.reads()


async def test_a_careful_session_is_not_woken_by_what_it_does_not_read() -> None:
    """Bytes that wait in the socket would end each rest at once."""
    session = Careful()
    session.ledger.end(5)
    session.confirmations = cast(
        Confirmations,
        SimpleNamespace(last_position_pending=lambda: True, waiting=True, rest_s=lambda: 60.0),
    )
    session.server_poll = cast(ServerPoll, SimpleNamespace(rest_s=lambda: 60.0))
    session.sink = cast(Sink, SimpleNamespace(hurry=lambda: False))
    session._rest_s = 0.0
    await session._rest()
    assert not session.stream.was_waited_for
    session._careful_until = 0
    await session._rest()
    assert session.stream.was_waited_for


def test_a_session_is_careful_up_to_what_an_earlier_one_had_read() -> None:
    session = Careful()
    session.ledger.end(10)
    assert session.careful
    session.entry.acknowledged = 1
    session.ledger.advance()
    assert not session.careful
    assert session.reads(), "nobody waits for a position any more"


class Sending(Source):
    """Each read gives the next of these; then the server ends the stream."""

    def __init__(self, *reads: list[bytes]) -> None:
        self._reads = list(reads)

    def read(self, max_frames: int, max_bytes: int) -> list[bytes]:
        if not self._reads:
            raise SourceUnavailable("the server ended the stream")
        return self._reads.pop(0)


def transactions(number: int) -> list[list[bytes]]:
    """As the server sends them to a client that is not behind: with a keepalive after each."""
    return [[b"w" * 30, build.keepalive(lsn, reply=lsn == 2)] for lsn in range(1, number + 1)]


class ReadingOn(Reading):
    """Reads from a server that sends these; `asked` counts the replies that it was promised."""

    def __init__(self, *reads: list[bytes]) -> None:
        super().__init__(Ledger())
        self.source = Sending(*reads)
        self.asked = 0
        self.confirmations = cast(Confirmations, SimpleNamespace(ask_for_one=self._ask))
        self.committing = False

    def _ask(self) -> None:
        self.asked += 1

    def frames(self) -> int:
        """The number of frames that the next read gives."""
        return len(self._frames) if self._read() else 0

    async def back_from_an_errand(self, commit: bool) -> None:
        self.committing = commit
        errand = asyncio.create_task(asyncio.sleep(0))
        await errand
        assert self._errand_done(errand)


@pytest.mark.parametrize(("commit", "then"), [(False, 6), (True, 2)], ids=["need", "commit"])
async def test_frames_that_came_during_an_errand_are_read_together(commit: bool, then: int) -> None:
    """So the new tables in them are asked for together."""
    session = ReadingOn(*transactions(4), [])
    assert session.frames() == 2
    await session.back_from_an_errand(commit)
    assert session.frames() == then
    assert session.asked == 1


async def test_frames_read_together_are_at_most_a_slice() -> None:
    session = ReadingOn(*transactions(1000), [])
    await session.back_from_an_errand(commit=False)
    assert session.frames() == 500
    session = ReadingOn(*([bytes(100_000), build.keepalive(1)] for _ in range(9)), [])
    await session.back_from_an_errand(commit=False)
    assert session.frames() == 6


async def test_the_end_of_a_stream_comes_after_the_frames_before_it() -> None:
    session = ReadingOn(*transactions(2))
    await session.back_from_an_errand(commit=False)
    assert session.frames() == 4
    with pytest.raises(SourceUnavailable):
        session.frames()


async def test_a_keepalive_that_can_not_be_read_drops_no_frames_before_it() -> None:
    """The session ends with them: read on, the stream would confirm past them."""
    session = ReadingOn(*transactions(1), [b"w" * 30, build.keepalive(2)[:-1]], *transactions(1))
    await session.back_from_an_errand(commit=False)
    with pytest.raises(ProtocolError, match="PrimaryKeepalive"):
        session.frames()


class Hurrying(FakeSink):
    """Records whether it was asked to send the queue at once."""

    def __init__(self) -> None:
        self.hurried = False

    def hurry(self) -> bool:
        self.hurried = True
        return True


class Full(Session):
    """Exactly once, and the producer has no room for a record."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self._commits = FakeCommits()
        self._outbox = Outbox()
        self._outbox.add(Delivery(InFlight(0), 3, self.sink.refused), [RECORD])


async def test_a_full_queue_is_sent_without_lingering_for_more() -> None:
    sink = Hurrying()
    await Full(sink)._rest()
    assert sink.hurried
