"""Tasks beside the loop: optional ones, several at a time, and how to end one."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Final, TypeVar

import structlog

_log = structlog.get_logger(__name__)

T = TypeVar("T")
U = TypeVar("U")

# When cancelled, psycopg first asks the server to end the query, and waits twice 5 s for the answer.
_AGAIN_S: Final = 1.0


def optional(work: Coroutine[object, object, None], what: str) -> asyncio.Task[None]:
    """Start `work`, which no record needs: if it fails, that is logged, and ends nothing.

    `what` completes the warning `going on without`.
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
    """Run `do` on each item, at most `at_once` at a time. Returns the results in the order of the items.

    Raises the first error that comes, with all other tasks cancelled.
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
    """Cancel a task, and again each second until it has ended: its cleanup may wait for long, too.

    So what a cleanup must do even then comes before its first `await`, or in a `finally`.
    """
    if not task.done():
        task.cancel()
        asyncio.get_running_loop().call_later(_AGAIN_S, cut, task)


async def cancelled(task: asyncio.Task[None] | None) -> None:
    """End a task that nobody waits for any more, by `cut`; what it raises no longer matters."""
    if task is not None:
        cut(task)
        await asyncio.gather(task, return_exceptions=True)
