"""How a session with a refused record ends, and when a session does not read. There is no server."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message

from pgrelay.assembly.spool import Spool
from pgrelay.errors import RecordRefused
from pgrelay.kafka.offsets import Position
from pgrelay.kafka.sink import Sink
from pgrelay.kafka.transactional import TransactionalSink
from pgrelay.progress import Ledger
from pgrelay.relay.session import Session
from pgrelay.relay.tasks import cancel_and_wait
from tests.clock import Clock
from tests.kafka.producer import OVERSIZED, REFUSED, TAKEN, FakeProducer
from tests.kafka.sinks import EXISTING, FakeOffsets, sink_of, transactions_of
from tests.relay.sessions import FakeSource, committing, end, enter, recovered, session_of, turns

pytestmark = pytest.mark.timeout(30)

BY = pytest.mark.parametrize("value", [REFUSED, OVERSIZED], ids=["broker", "producer"])


async def refused(sink: Sink, value: bytes) -> Session:
    """A session in which a transaction that ends at 2 is on its way, and one that ends at 4 was refused."""
    session = session_of(FakeSource(), sink)
    enter(session, 2, TAKEN)
    enter(session, 4, value)
    with pytest.raises(RecordRefused):
        await turns(session)
    assert session.ledger.flush_lsn == 0
    return session


@BY
async def test_settling_waits_for_records_before_the_refused_one_only(value: bytes) -> None:
    session = await refused(sink_of(FakeProducer()), value)
    await session.settle(10)
    assert session.ledger.flush_lsn == 2
    assert session.ledger.has_unacknowledged


async def test_settling_does_not_wait_if_kafka_denies_access() -> None:
    session = await refused(sink_of(FakeProducer()), REFUSED)
    session.sink.failures.on_error(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED))
    await session.settle(10)
    assert session.sink.in_queue == 1


@BY
async def test_no_commit_covers_a_refused_record(value: bytes) -> None:
    kafka = FakeProducer()
    session = await refused(transactions_of(kafka), value)
    await session.settle(10)
    assert kafka.committed == []
    assert session.ledger.flush_lsn == 0


async def test_a_stop_does_not_wait_for_a_side_task_other_than_a_commit() -> None:
    """The grace is for records on their way to Kafka."""
    offsets = FakeOffsets()
    offsets.readable.clear()
    session = session_of(FakeSource(), transactions_of(FakeProducer(), offsets))
    await turns(session, 3)
    assert session.guarantee.recovering
    assert not session.side_task.running
    assert await session.finish(3600)


async def test_a_stop_waits_for_a_commit() -> None:
    """Otherwise nobody would know whether it took effect."""
    source, kafka = FakeSource(), FakeProducer()
    session = session_of(source, transactions_of(kafka))
    kafka.commits.clear()
    enter(session, 2, TAKEN)
    await turns(session, until=committing)
    assert session.side_task.committing
    finishing = asyncio.create_task(session.finish(3600))
    await asyncio.sleep(0.01)
    assert not finishing.done()
    kafka.commits.set()
    assert await finishing
    assert not session.side_task.committing
    assert kafka.positions == [Position(2)]
    assert source.confirmed[-1] == 2


async def test_a_stop_within_a_transaction_leaves_whole_ones_before_it_to_the_next_run() -> None:
    """Exactly once, a commit would cover half of it. Then the log must say that something is left."""
    kafka = FakeProducer()
    session = session_of(FakeSource(), transactions_of(kafka))
    await turns(session, until=recovered)
    enter(session, 2, TAKEN)
    enter(session, 4, TAKEN, ends=False)
    assert not await session.finish(10)
    assert kafka.committed == []


@pytest.mark.parametrize("ends", [RecordRefused, asyncio.CancelledError])
async def test_what_ends_a_session_does_not_keep_the_server_from_learning_what_is_delivered(
    clock: Clock, ends: type[BaseException]
) -> None:
    """Within the pause between two status updates: only the last one, at the end, can tell."""
    source, kafka = FakeSource(), FakeProducer()
    session = session_of(source, transactions_of(kafka))
    enter(session, 2, TAKEN)
    await turns(session, until=lambda session: session.ledger.flush_lsn == 2)
    await turns(session, 3)
    assert (kafka.positions, source.confirmed) == ([Position(2)], [0])
    enter(session, 4, TAKEN)
    kafka.commits.clear()
    await turns(session, until=committing)
    finishing = asyncio.create_task(session.finish(10))
    await asyncio.sleep(0)
    if ends is RecordRefused:
        kafka.error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
        kafka.commits.set()
    else:
        finishing.cancel()
    with pytest.raises(ends):
        await finishing
    assert source.confirmed == [0, 2]
    await session.close()


@pytest.mark.parametrize("make", [sink_of, transactions_of], ids=["at least once", "exactly once"])
async def test_a_stop_with_a_refused_record_has_not_finished(make: Callable[[FakeProducer], Sink]) -> None:
    """Else nobody would be told, if the stop came before the error was raised."""
    sink = make(FakeProducer())
    session = session_of(FakeSource(), sink)
    await turns(session, until=recovered)
    # In another thread's call: nobody has been told yet.
    sink.failures.on_refused(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), Message(topic="t"), 1)
    assert await session.finish(10), "nothing was on its way"
    enter(session, 2, REFUSED)
    assert not await session.finish(10)


@pytest.mark.parametrize(("most", "is_read"), [(2, True), (1, False)], ids=["room", "full"])
async def test_nothing_is_read_while_the_ledger_is_full(most: int, is_read: bool) -> None:
    source = FakeSource()
    session = session_of(source, sink_of(FakeProducer()), Ledger(max_entries=most))
    enter(session, 2, TAKEN)
    await turns(session, 3)
    assert (source.reads > 0) == is_read


async def reads(session: Session, source: FakeSource) -> bool:
    source.reads = 0
    await turns(session, 3)
    return source.reads > 0


async def test_a_serial_session_waits_for_each_transaction_and_its_position() -> None:
    """So what Kafka refuses is of the only one on its way, and what came before is confirmed."""
    source, kafka = FakeSource(), FakeProducer()
    session = session_of(source, sink_of(kafka), serial_until=10, keeps_positions=True)
    await turns(session, 2)
    kafka.answer()  # the position at the start
    enter(session, 5, TAKEN, ends=False)
    assert await reads(session, source), "the transaction has not ended"
    end(session, 5)
    assert not await reads(session, source)
    kafka.answer()
    assert not await reads(session, source), "its position is not kept"
    kafka.answer()
    assert await reads(session, source)


@pytest.mark.parametrize("serial_until", [10, 0], ids=["serial", "not serial"])
async def test_a_serial_session_is_not_woken_by_what_it_does_not_read(serial_until: int) -> None:
    """Bytes that wait in the socket would end each rest at once."""
    source = FakeSource()
    session = session_of(source, sink_of(FakeProducer()), serial_until=serial_until)
    enter(session, 5, TAKEN)
    await turns(session, 3)
    assert (source.waits == 0) == (serial_until > 0)


async def test_a_session_is_serial_up_to_what_an_earlier_one_had_read() -> None:
    source, kafka = FakeSource(), FakeProducer()
    session = session_of(source, sink_of(kafka), serial_until=10, keeps_positions=True)
    enter(session, 10, TAKEN)
    await turns(session, 3)
    assert session.serial
    while session.ledger.flush_lsn < 10:
        kafka.answer()
        await turns(session, 1)
    assert not session.serial
    assert await reads(session, source), "nobody waits for a position any more"
    assert session.confirmations.confirmed_lsn < 10


@pytest.mark.parametrize(("records", "flushed"), [(1, False), (2, True)], ids=["room", "full"])
async def test_a_full_queue_is_sent_without_lingering_for_more(records: int, flushed: bool) -> None:
    """With exactly once, too, where otherwise a commit sends what is queued."""
    kafka = FakeProducer(room=1)
    session = session_of(FakeSource(), transactions_of(kafka))
    enter(session, 2, *[TAKEN] * records, ends=False)
    await turns(session, until=lambda _: len(kafka) == 1)
    await turns(session, 3)
    assert ("flush" in kafka.calls) == flushed


class SlowToEnd(TransactionalSink):
    """A commit must be cancelled several times until it ends."""

    async def commit(self, position: Position) -> None:
        for _ in range(5):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)


async def test_a_session_that_is_cut_while_it_closes_gives_up_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgrelay.relay.tasks._CANCEL_AGAIN_S", 0.01)
    spool = Spool(tmp_path)
    spool.open()
    sink = SlowToEnd(EXISTING, FakeOffsets(), make_clients=FakeProducer().clients)
    session = session_of(FakeSource(), sink, spool=spool)
    enter(session, 2, TAKEN)
    await turns(session, until=committing)
    closing = asyncio.create_task(session.close())
    await asyncio.sleep(0)
    await cancel_and_wait(closing)
    assert closing.cancelled()
    again = Spool(tmp_path)
    again.open()
    again.close()
