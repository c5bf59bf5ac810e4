"""A stop that is asked for before anybody listens, while Python still imports what the command needs.

By default such a SIGTERM kills, a SIGINT shows a traceback, and process 1 of a container sees neither.
"""

import signal
from types import FrameType

_NUMBERS = (signal.SIGTERM, signal.SIGINT)


class Note:
    """Handles both signals by remembering the first: `number` is 0 until then."""

    def __init__(self) -> None:
        self.number = 0
        self._before = {number: signal.signal(number, self) for number in _NUMBERS}

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.number = self.number or number

    def give_back(self) -> None:
        """Let the signals do what they did before."""
        for number, action in self._before.items():
            signal.signal(number, action)


def noted() -> Note | None:
    """What takes notes now; None where the signals are handled otherwise."""
    handler = signal.getsignal(signal.SIGTERM)
    return handler if isinstance(handler, Note) else None
