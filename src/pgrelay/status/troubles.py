"""The last things that went wrong, each with its cure."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pgrelay.errors import End, TransientError, split_cure

MAX_KEPT: Final = 20

# The cures for errors whose messages contain none.
_CURES: Final[Mapping[End, str]] = {
    "postgres": "pgrelay retries by itself; check that Postgres runs and can be reached from here",
    "kafka": "pgrelay retries by itself; check that the brokers of sink.kafka run and answer",
    "registry": "pgrelay retries by itself; check that the schema registry runs and answers",
    "spool": "pgrelay retries by itself; check that transactions.spool_dir is writable and has space",
}
_UNKNOWN: Final = "see the log"


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that went wrong, `count` times between `first_s` and `last_s` (Unix time)."""

    what: str
    cure: str
    first_s: float
    last_s: float
    count: int


class Troubles:
    """The last `MAX_KEPT` troubles; a repeated one is listed once, with a count. Safe in any thread."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives Unix seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, Trouble] = {}

    def record(self, what: str, cure: str) -> None:
        """Record that something went wrong, or is still wrong."""
        now_s = self._clock()
        with self._lock:
            before = self._kept.pop(what, None)
            first_s, count = (now_s, 0) if before is None else (before.first_s, before.count)
            # Inserted again at the end, so that the order is that of the last occurrence.
            self._kept[what] = Trouble(what, cure, first_s, now_s, count + 1)
            if len(self._kept) > MAX_KEPT:
                del self._kept[next(iter(self._kept))]

    def record_error(self, error: Exception) -> None:
        """Record an error that ended a session, with the cure of its message or else of its class."""
        what, cure = split_cure(error)
        self.record(what, cure or (_CURES[error.end] if isinstance(error, TransientError) else _UNKNOWN))

    def latest(self) -> list[Trouble]:
        """The troubles, latest first."""
        with self._lock:
            return list(reversed(self._kept.values()))
