"""Time that stands still until it is set."""


class Clock:
    """What a module sees as the module `time`; in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now
