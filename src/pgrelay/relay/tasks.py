"""Tasks beside the loop: those that the relay can do without, several at a time, and the end of any."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Final, TypeVar

import structlog

_log = structlog.get_logger(__name__)

T = TypeVar("T")
U = TypeVar("U")

# psycopg has the server end a query first, and waits twice for 5 s where that does not answer.
_AGAIN_S: Final = 1.0


def optional(work: Coroutine[object, object, None], what: str) -> asyncio.Task[None]:
    """Start `work`, which no record needs: if it fails, it says so in the log, and ends nothing.

    `what` it is completes the warning `going on without`.
    """
    task = asyncio.create_task(work)
    task.add_done_callback(partial(_tell, what))
    return task


def _tell(what: str, task: asyncio.Task[None]) -> None:
    if task.cancelled() or (error := task.exception()) is None:
        return
    told = f"going on without {what}"
    _log.warning(told, reason=str(error), cure="report it, with the log", exc_info=error)


async def each(do: Callable[[T], Awaitable[U]], of: Iterable[T], at_once: int) -> list[U]:
    """The results in the order of what they are of, at most `at_once` of which are under way at a time.

    Raises the first error that comes, with all others cut.
    """
    room = asyncio.Semaphore(at_once)

    async def one(what: T) -> U:
        async with room:
            return await do(what)

    tasks = [asyncio.create_task(one(what)) for what in of]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def cut(task: asyncio.Task[None]) -> None:
    """Cancel a task, and where it takes longer over its end than a moment, there too, as often as it does."""
    if not task.done():
        task.cancel()
        asyncio.get_running_loop().call_later(_AGAIN_S, cut, task)


async def cancelled(task: asyncio.Task[None] | None) -> None:
    """End a task that nobody waits for any more, by `cut`; what it would have raised matters no longer."""
    if task is not None:
        cut(task)
        await asyncio.gather(task, return_exceptions=True)
