"""asyncio tasks: optional ones, several with a limit, and cancelling them for good."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Final, TypeVar

import structlog

_log = structlog.get_logger(__name__)

T = TypeVar("T")
U = TypeVar("U")

# When cancelled, psycopg first asks the server to end the query, and waits twice 5 s for the answer.
_CANCEL_AGAIN_S: Final = 1.0


def start_optional(work: Coroutine[object, object, None], what: str) -> asyncio.Task[None]:
    """Start `work`, on which no record depends: a failure is only logged.

    `what` completes the warning `going on without`.
    """
    task = asyncio.create_task(work)
    task.add_done_callback(partial(_log_failure, what))
    return task


def _log_failure(what: str, task: asyncio.Task[None]) -> None:
    if task.cancelled() or (error := task.exception()) is None:
        return
    _log.warning(
        f"going on without {what}", reason=str(error), cure="report it, with the log", exc_info=error
    )


async def gather_limited(call: Callable[[T], Awaitable[U]], items: Iterable[T], limit: int) -> list[U]:
    """Await `call` of each item, at most `limit` at a time; returns the results in the order of the items.

    Raises the first error, with all other calls cancelled.
    """
    slots = asyncio.Semaphore(limit)

    async def call_one(item: T) -> U:
        async with slots:
            return await call(item)

    tasks = [asyncio.create_task(call_one(item)) for item in items]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def force_cancel(task: asyncio.Task[None]) -> None:
    """Cancel a task, and again every second until it has ended, since its cleanup may await something, too.

    So what a cleanup must do in any case comes before its first `await`, or in a `finally`.
    """
    if not task.done():
        task.cancel()
        asyncio.get_running_loop().call_later(_CANCEL_AGAIN_S, force_cancel, task)


async def cancel_and_wait(task: asyncio.Task[None] | None) -> None:
    """Cancel a task that nobody needs any more, by `force_cancel`, and wait for it, whatever it raises."""
    if task is not None:
        force_cancel(task)
        await asyncio.gather(task, return_exceptions=True)
