"""Handles stop signals that come before a command can handle them, as while Python imports its modules.

By default such a SIGTERM kills the process, a SIGINT prints a traceback, and process 1 of a container ignores
SIGTERM.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class SignalRecorder:
    """Handles SIGTERM and SIGINT by recording the first: `number` is 0 until one comes."""

    def __init__(self) -> None:
        self.number = 0
        self._previous = {number: signal.signal(number, self) for number in _STOP_SIGNALS}

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.number = self.number or number

    def restore(self) -> None:
        """Restore the signals' earlier handlers."""
        for number, action in self._previous.items():
            if action is not None:  # set by something other than Python
                signal.signal(number, action)


class _DeferredSignals(SignalRecorder):
    """Also delivers a second signal at once: whoever sends it does not want to wait."""

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.number == 0:
            self.number = number
            return
        self.number = 0
        self.restore()
        signal.raise_signal(number)


def set_handlers(action: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    """Set the handler of SIGTERM and SIGINT; SIG_IGN ignores them."""
    for number in _STOP_SIGNALS:
        signal.signal(number, action)


def active_recorder() -> SignalRecorder | None:
    """The recorder that handles the signals now; None if something else does."""
    handler = signal.getsignal(signal.SIGTERM)
    return handler if isinstance(handler, SignalRecorder) else None


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defer a SIGTERM or SIGINT until the block has ended, but not a second one.

    Does nothing in other threads than the main one, which signals don't interrupt.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    deferred = _DeferredSignals()
    try:
        yield
    finally:
        deferred.restore()
        if deferred.number:
            signal.raise_signal(deferred.number)


@contextmanager
def preserve_sigint_handler() -> Iterator[None]:
    """Restore the program's own SIGINT handler, if it has one, after a block that sets another."""
    own = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        ours = threading.current_thread() is threading.main_thread()
        if ours and own is not None and own is not signal.default_int_handler:
            signal.signal(signal.SIGINT, own)
