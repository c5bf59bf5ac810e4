"""Wait for a condition instead of for a fixed time."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_PAUSE = 0.02  # seconds between two checks


class OutOfPatience(AssertionError):
    """The condition did not become true in time: a fault, or a busy machine."""


def wait_until(condition: Callable[[], T], what: str, timeout: float = 60.0) -> T:
    """The first true value of `condition`; OutOfPatience, naming `what`, after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        _check(deadline, what, timeout, value)
        time.sleep(_PAUSE)
    return value


async def eventually(condition: Callable[[], T], what: str, timeout: float = 60.0) -> T:  # noqa: ASYNC109
    """As `wait_until`, while the event loop goes on; `condition` must not block for long."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        _check(deadline, what, timeout, value)
        await asyncio.sleep(_PAUSE)
    return value


def _check(deadline: float, what: str, timeout: float, value: object) -> None:
    if time.monotonic() > deadline:
        raise OutOfPatience(f"waited {timeout:g} s in vain for {what}; at last it was {value!r}")
