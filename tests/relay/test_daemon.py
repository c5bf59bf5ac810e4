"""A daemon that is asked to stop during other trouble. There is no server."""

import asyncio
import gc
import sys
import weakref
from collections.abc import Callable
from typing import cast

import pytest
from structlog.testing import capture_logs

from pgrelay.config import Config
from pgrelay.errors import GapError, KafkaUnavailable, RecordRefused, SourceUnavailable
from pgrelay.kafka.sink import Sink
from pgrelay.metrics import Metrics
from pgrelay.postgres.source import Source
from pgrelay.progress import Ledger
from pgrelay.relay.at_least_once import AtLeastOnce
from pgrelay.relay.confirmations import Confirmations
from pgrelay.relay.daemon import Daemon
from pgrelay.relay.observer import Observer
from pgrelay.relay.refusals import Refusals
from pgrelay.relay.session import Session
from pgrelay.status.health import Health
from tests.relay.test_refusals import SECTIONS
from tests.test_metrics import value

CONFIG = Config.model_validate(
    {**SECTIONS, "sink": {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "shutdown_grace_s": 0.1}}
)


class Silent(Observer):
    """Sees nothing of a session."""

    def __init__(self, metrics: Metrics, health: Health) -> None:
        pass

    def on_begin(self, session: Session) -> None: ...
    def publish(self, session: Session) -> None: ...
    def on_end(self, session: Session, failure: Exception | None) -> None: ...


class Unsent(Confirmations):
    """Nothing was confirmed."""

    def __init__(self) -> None:
        self.confirmed_lsn = 0


class Ending(Session):
    """Runs until it is asked to stop, and fails in the last moment of the grace."""

    def __init__(self, began: asyncio.Event, error: Exception) -> None:
        self.began = began
        self.error = error
        self.settled_s: list[float] = []
        self.source = Source("")
        self.ledger = Ledger()
        self._serial_until = 0
        self.confirmations = Unsent()
        self.guarantee = AtLeastOnce(cast(Sink, None), self.ledger, None)

    async def run(self, stop: asyncio.Event, on_turn: "Callable[[Session], None]") -> None:
        self.began.set()
        await stop.wait()

    async def finish(self, grace_s: float) -> bool:
        await asyncio.sleep(grace_s)
        raise self.error

    async def settle(self, timeout_s: float) -> None:
        self.settled_s.append(timeout_s)
        assert sys.exception() is None, "Kafka's client would keep it, and the session"

    async def close(self) -> None: ...


class HangingRefusals(Refusals):
    """Kafka does not answer which records a topic accepts."""

    def __init__(self, asked: asyncio.Event) -> None:
        super().__init__(CONFIG)
        self._asked = asked

    async def adapt_to(self, error: RecordRefused, serial: bool, read_lsn: int) -> bool:
        self._asked.set()
        await asyncio.sleep(3600)
        return True


class UnansweredRefusals(Refusals):
    """Kafka is away, and is asked again."""

    def __init__(self, again: asyncio.Event) -> None:
        super().__init__(CONFIG)
        self._asked = 0
        self._again = again

    async def adapt_to(self, error: RecordRefused, serial: bool, read_lsn: int) -> bool:
        self._asked += 1
        if self._asked == 2:
            self._again.set()
        raise KafkaUnavailable("Kafka is away")


class Given(Daemon):
    """Every session is the given one, or the given error is raised instead."""

    def __init__(self, session: Session | Exception, refusals: Refusals | None = None) -> None:
        self.metrics, health = Metrics(), Health()
        super().__init__(CONFIG, self.metrics, health)
        self._observer = Silent(self.metrics, health)
        self._refusals = refusals or self._refusals
        self._given = session

    async def _session(self) -> None:
        if isinstance(self._given, Exception):
            raise self._given
        await self._stream(self._given)


async def stopped(daemon: Daemon, once: asyncio.Event) -> None:
    """Run the daemon, and ask it to stop when `once` is set."""
    running = asyncio.create_task(daemon.run())
    await asyncio.wait_for(once.wait(), 60)
    daemon.stop()
    # Not wait_for: its own cancellation would end what the stop has left waiting.
    done, _ = await asyncio.wait([running], timeout=60)
    assert done, "it does not stop"
    await running


class Hanging(Ending):
    """Confirms 0/7, and neither finishes nor closes."""

    def __init__(self, began: asyncio.Event, error: Exception) -> None:
        super().__init__(began, error)
        self.finishing = asyncio.Event()

    async def finish(self, grace_s: float) -> bool:
        self.finishing.set()
        self.confirmations.confirmed_lsn = 7
        await asyncio.sleep(3600)
        return True

    async def close(self) -> None:
        await asyncio.sleep(3600)


class Failing(Hanging):
    """Something breaks for good while it runs."""

    async def run(self, stop: asyncio.Event, on_turn: "Callable[[Session], None]") -> None:
        raise self.error


class Unclosed(Failing):
    """The same, and only its close hangs."""

    async def finish(self, grace_s: float) -> bool:
        return True

    async def close(self) -> None:
        self.finishing.set()
        await super().close()


class Unsettled(Failing):
    """The same, and records are still on their way to Kafka."""

    async def settle(self, timeout_s: float) -> None:
        self.finishing.set()
        await asyncio.sleep(3600)

    async def close(self) -> None: ...


class Unfinished(Ending):
    """Kafka has refused something, which is known only at the end."""

    async def finish(self, grace_s: float) -> bool:
        return False


async def test_a_stop_that_leaves_transactions_behind_says_so_once() -> None:
    began = asyncio.Event()
    with capture_logs() as logs:
        await stopped(Given(Unfinished(began, SourceUnavailable("not raised"))), once=began)
    warnings = [log["event"] for log in logs if log["log_level"] == "warning"]
    assert warnings == ["stopping before Kafka has acknowledged everything; the rest will be sent again"]


@pytest.mark.parametrize("left", [0, 1])
async def test_a_second_request_to_stop_says_whether_transactions_are_left_behind(left: int) -> None:
    began = asyncio.Event()
    session = Hanging(began, SourceUnavailable("not raised"))
    session.ledger.note_wal_end(7)
    for _ in range(left):
        session.ledger.begin(0)
        session.ledger.end(7)
    daemon = Given(session)
    with capture_logs() as logs:
        running = asyncio.create_task(daemon.run())
        await began.wait()
        daemon.stop()
        await session.finishing.wait()
        daemon.stop()
        await asyncio.wait_for(running, 60)
    warnings = [log["event"] for log in logs if log["log_level"] == "warning"]
    assert (
        warnings == ["stopping before Kafka has acknowledged everything; the rest will be sent again"] * left
    )


@pytest.mark.parametrize("kind", [Failing, Unclosed])
async def test_a_second_request_to_stop_hides_no_error_that_had_ended_the_session_for_good(
    kind: type[Failing],
) -> None:
    session = kind(asyncio.Event(), GapError("the slot is gone"))
    daemon = Given(session)
    running = asyncio.create_task(daemon.run())
    await session.finishing.wait()
    daemon.stop()
    daemon.stop()
    with pytest.raises(GapError, match="the slot is gone"):
        await asyncio.wait_for(running, 60)


async def test_a_second_request_to_stop_tells_of_a_refused_record_that_had_ended_the_session() -> None:
    session = Failing(asyncio.Event(), RecordRefused("too large"))
    daemon = Given(session)
    with capture_logs() as logs:
        running = asyncio.create_task(daemon.run())
        await session.finishing.wait()
        daemon.stop()
        daemon.stop()
        await asyncio.wait_for(running, 60)
    assert [log["reason"] for log in logs if log["log_level"] == "warning"] == ["too large"]


async def test_a_cancellation_from_outside_is_no_stop() -> None:
    session = Unsettled(asyncio.Event(), SourceUnavailable("Postgres cut the connection"))
    running = asyncio.create_task(Given(session).run())
    await asyncio.wait_for(session.finishing.wait(), 60)
    running.cancel()
    done, _ = await asyncio.wait([running], timeout=60)
    assert done, "another session has begun"
    assert running.cancelled()


async def test_a_daemon_that_is_asked_twice_to_stop_still_says_what_was_confirmed() -> None:
    """The second request cuts whatever runs, the end of the session too."""
    began = asyncio.Event()
    session = Hanging(began, SourceUnavailable("not raised"))
    daemon = Given(session)
    running = asyncio.create_task(daemon.run())
    await began.wait()
    daemon.stop()
    with capture_logs() as logs:
        await session.finishing.wait()
        daemon.stop()
        await asyncio.wait_for(running, 60)
    assert logs[-1] == {"event": "stopped", "confirmed": "0/7", "log_level": "info"}


async def test_losing_postgres_during_a_stop_keeps_the_rest_of_the_grace() -> None:
    began = asyncio.Event()
    session = Ending(began, SourceUnavailable("Postgres cut the connection"))
    daemon = Given(session)
    await stopped(daemon, once=began)
    assert session.settled_s == [0]
    assert value(daemon.metrics, "pgrelay_reconnects_total", end="postgres") == 0


async def test_a_stop_does_not_wait_for_a_query_about_a_refused_record() -> None:
    asked = asyncio.Event()
    await stopped(Given(RecordRefused("too large"), HangingRefusals(asked)), once=asked)


async def test_if_kafka_is_away_the_query_about_a_refused_record_is_repeated() -> None:
    again = asyncio.Event()
    daemon = Given(RecordRefused("too large"), UnansweredRefusals(again))
    await stopped(daemon, once=again)
    assert value(daemon.metrics, "pgrelay_reconnects_total", end="kafka") == 2


async def test_a_stopping_daemon_asks_nothing_about_a_refused_record() -> None:
    asked, began = asyncio.Event(), asyncio.Event()
    session = Ending(began, RecordRefused("too large"))
    await stopped(Given(session, HangingRefusals(asked)), once=began)
    assert not asked.is_set()


async def test_a_stop_during_connect_does_not_wait_for_a_silent_postgres() -> None:
    """When cancelled during a query, psycopg waits for the server twice."""
    asked = asyncio.Event()

    class Beginning(Given):
        async def _session(self) -> None:
            asked.set()
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(3600)

    await stopped(Beginning(Ending(asked, SourceUnavailable("silent"))), once=asked)


async def test_an_ended_session_is_freed_before_the_next_begins() -> None:
    """It is in cycles; with many tables its plans are megabytes, and Postgres may be restarted often."""
    third = asyncio.Event()
    alive: list[int] = []
    ended: list[weakref.ref[Session]] = []

    class Failing(Ending):
        async def run(self, stop: asyncio.Event, on_turn: "Callable[[Session], None]") -> None:
            self.itself = self
            raise self.error

    class Reconnecting(Given):
        async def _session(self) -> None:
            alive.append(sum(session() is not None for session in ended))
            if len(alive) == 3:
                third.set()
            session = Failing(third, SourceUnavailable("Postgres cut the connection"))
            ended.append(weakref.ref(session))
            await self._stream(session)

    gc.disable()
    try:
        await stopped(Reconnecting(SourceUnavailable("none is given")), once=third)
    finally:
        gc.enable()
    assert alive[:3] == [0, 0, 0]
