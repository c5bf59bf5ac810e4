"""Waiting for a condition instead of for a time."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_PAUSE = 0.02  # seconds between two looks


def wait_until(condition: Callable[[], T], what: str, timeout: float = 30.0) -> T:
    """The first true value of `condition`; AssertionError, naming `what`, after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        _check(deadline, what, timeout, value)
        time.sleep(_PAUSE)
    return value


async def eventually(condition: Callable[[], T], what: str, timeout: float = 30.0) -> T:  # noqa: ASYNC109
    """The same while the event loop goes on; `condition` must not block for long."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        _check(deadline, what, timeout, value)
        await asyncio.sleep(_PAUSE)
    return value


def _check(deadline: float, what: str, timeout: float, value: object) -> None:
    if time.monotonic() > deadline:
        raise AssertionError(f"waited {timeout:g} s in vain for {what}; at last it was {value!r}")
