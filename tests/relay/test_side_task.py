"""One task at a time beside the session's loop."""

import asyncio

import pytest

from pgrelay.errors import KafkaUnavailable
from pgrelay.relay.side_task import SideTask

pytestmark = pytest.mark.timeout(30)


async def test_a_side_task_wakes_the_loop_at_its_end() -> None:
    woken, answer = asyncio.Event(), asyncio.Event()

    async def commit() -> None:
        await answer.wait()

    side_task = SideTask(woken.set)
    assert side_task.finished()
    side_task.start(commit(), commit=True)
    assert side_task.running
    assert side_task.committing
    assert not side_task.finished()
    answer.set()
    await woken.wait()
    assert side_task.finished()
    assert not side_task.running
    assert not side_task.committing


async def test_the_error_that_ends_a_side_task_is_raised_once() -> None:
    async def fail() -> None:
        raise KafkaUnavailable("no broker")

    side_task = SideTask(lambda: None)
    side_task.start(fail())
    await side_task.wait(10)
    with pytest.raises(KafkaUnavailable):
        side_task.finished()
    assert side_task.finished()


async def test_a_wait_for_a_side_task_ends_in_time() -> None:
    side_task = SideTask(lambda: None)
    side_task.start(asyncio.sleep(3600))
    await side_task.wait(0.001)
    assert not side_task.finished()
    await side_task.cancel()
    assert side_task.finished()
