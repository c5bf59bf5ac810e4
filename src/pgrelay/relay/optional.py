"""Tasks beside the relay that it can do without: one that fails says so in the log, and ends nothing."""

import asyncio
from collections.abc import Coroutine
from functools import partial

import structlog

_log = structlog.get_logger(__name__)


def optional(work: Coroutine[object, object, None], what: str) -> asyncio.Task[None]:
    """Start `work`, which no record needs. `what` it is completes the warning `going on without`."""
    task = asyncio.create_task(work)
    task.add_done_callback(partial(_tell, what))
    return task


def _tell(what: str, task: asyncio.Task[None]) -> None:
    if task.cancelled() or (error := task.exception()) is None:
        return
    told = f"going on without {what}"
    _log.warning(told, reason=str(error), cure="report it, with the log", exc_info=error)
