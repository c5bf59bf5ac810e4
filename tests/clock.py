"""A clock that stands still until a test sets it."""


class Clock:
    """Replaces the module `time` in the tested module; in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now + 1.8e9
