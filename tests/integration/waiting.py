"""Waiting for a condition instead of for a time."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_PAUSE = 0.02  # seconds between two looks


class OutOfPatience(AssertionError):
    """What was awaited did not come in time: a fault, or a machine that others use."""


def wait_until(condition: Callable[[], T], what: str, timeout: float = 60.0) -> T:
    """The first true value of `condition`; OutOfPatience, naming `what`, after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        _check(deadline, what, timeout, value)
        time.sleep(_PAUSE)
    return value


async def eventually(condition: Callable[[], T], what: str, timeout: float = 60.0) -> T:  # noqa: ASYNC109
    """The same while the event loop goes on; `condition` must not block for long."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        _check(deadline, what, timeout, value)
        await asyncio.sleep(_PAUSE)
    return value


def _check(deadline: float, what: str, timeout: float, value: object) -> None:
    if time.monotonic() > deadline:
        raise OutOfPatience(f"waited {timeout:g} s in vain for {what}; at last it was {value!r}")
