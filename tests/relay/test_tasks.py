"""Tasks beside the loop: a failure is logged once and the run goes on; the end of a run does not wait."""

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Coroutine, Iterator

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from pgrelay.check.advice import advise
from pgrelay.config import Config
from pgrelay.relay.process import run
from pgrelay.relay.tasks import cancel_and_wait, gather_limited, start_optional
from pgrelay.status.status import Status


class Bug(Exception):
    pass


@pytest.fixture
def config() -> Config:
    """A configuration with servers that do not exist."""
    source = {"dsn": "host=127.0.0.1 port=1"}
    kafka = {"bootstrap.servers": "127.0.0.1:1"}
    return Config.model_validate({"source": source, "sink": {"kafka": kafka}, "http": {"listen": None}})


@pytest.fixture
def logs() -> Iterator[list[EventDict]]:
    with capture_logs() as captured:
        yield captured


def going_on(logs: list[EventDict]) -> list[str]:
    """The warnings that name what a run goes on without."""
    warnings = [log for log in logs if log["log_level"] == "warning"]
    return [log["event"] for log in warnings if log["event"].startswith("going on without ")]


async def test_a_failure_is_a_warning_with_its_traceback(
    config: Config, logs: list[EventDict], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(_: Config, **how: bool) -> None:
        raise Bug("of the check")

    monkeypatch.setattr("pgrelay.check.advice.check", check)
    await asyncio.wait([start_optional(advise(config), "advice")])
    (warning,) = logs
    assert (warning["event"], warning["reason"]) == ("going on without advice", "of the check")
    assert isinstance(warning["exc_info"], Bug)


async def test_success_and_cancellation_are_not_failures(logs: list[EventDict]) -> None:
    done, cut = start_optional(asyncio.sleep(0), "an end"), start_optional(asyncio.sleep(3600), "a cut")
    await done
    cut.cancel()
    await asyncio.wait([cut])
    assert logs == []


async def test_a_run_goes_on_without_samples(
    config: Config, logs: list[EventDict], monkeypatch: pytest.MonkeyPatch
) -> None:
    def sample(*_: object) -> None:
        # The run has started; stop it by a signal, as for a process.
        os.kill(os.getpid(), signal.SIGTERM)
        raise Bug("of the samples")

    monkeypatch.setattr(Status, "sample", sample)
    collecting = gc.get_threshold()
    try:
        await run(config, advise)
    finally:
        gc.set_threshold(*collecting)
    assert going_on(logs) == ["going on without the status page's samples"]
    assert logs[-1]["event"] == "stopped"


class Asked:
    """Answers once the allowed number of questions is asked; records how many were asked at a time."""

    def __init__(self, at_once: int) -> None:
        self.under_way = self.most = 0
        self._all = asyncio.Barrier(at_once)

    async def double(self, number: int) -> int:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self._all.wait()
        finally:
            self.under_way -= 1
        return 2 * number


@pytest.mark.timeout(30)
async def test_each_runs_a_limited_number_at_a_time_and_keeps_the_order() -> None:
    asked = Asked(3)
    assert await gather_limited(asked.double, range(9), 3) == [0, 2, 4, 6, 8, 10, 12, 14, 16]
    assert asked.most == 3
    assert await gather_limited(asked.double, [], 3) == []


@pytest.mark.timeout(30)
async def test_a_failure_cancels_the_others() -> None:
    asked = Asked(4)

    async def double(number: int) -> int:
        if number == 2:
            raise Bug("of one")
        return await asked.double(number)

    with pytest.raises(Bug):
        await gather_limited(double, range(9), 3)
    assert asked.most > 1
    assert asked.under_way == 0


async def query() -> None:
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(3600)


async def transaction() -> None:
    try:
        await query()
    finally:
        await asyncio.sleep(3600)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("work", [query, transaction])
async def test_a_task_that_ends_slowly_is_cancelled_again(
    work: Callable[[], Coroutine[None, None, None]],
) -> None:
    """For example a query cancelled at a server that does not answer, and the transaction around it."""
    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await cancel_and_wait(task)
    assert task.cancelled()


async def test_a_task_that_needs_a_moment_to_end_gets_it() -> None:
    ended = asyncio.Event()

    async def query() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.01)
            ended.set()

    task = asyncio.create_task(query())
    await asyncio.sleep(0)
    await cancel_and_wait(task)
    assert ended.is_set()
