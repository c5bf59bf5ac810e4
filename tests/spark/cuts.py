"""Kill a mirror at each of its writes in turn, with exceptions that end all of its work."""

import re
from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import Any, Final

import pytest
from pyspark.sql import DataFrameWriterV2, SparkSession

_WRITES: Final = ((SparkSession, "sql"), (DataFrameWriterV2, "append"), (DataFrameWriterV2, "overwrite"))
_READS: Final = ("SELECT", "DESCRIBE", "SHOW", "CREATE NAMESPACE IF NOT EXISTS")  # it exists already
_OF_ONE_RUN: Final = re.compile(r"(pgrelay_\w+_)?[0-9a-f]{32}")  # a view, or who writes


class Killed(Exception):
    """From here on the run writes nothing more to the lake."""


class Cuts:
    """Kill runs after each of their writes once: one run more than there are writes.

    A write is a statement or an append, since nothing else changes the lake, and each is one commit. So
    a kill after one is also the kill before the next.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.behind: list[str] = []  # the writes
        self._killed = set[tuple[str, int]]()  # the writes, by which of the same they were in their run
        self._run = Counter[str]()
        self._counts: Callable[[str], bool]
        self._dead = True
        self._active = False
        self._lock = Lock()
        for owner, name in _WRITES:
            monkeypatch.setattr(owner, name, self._cut(name, getattr(owner, name)))

    def at_each_write(self, run: Callable[[], None], of: str = "", but: str = "") -> None:
        """Run it until it passes, which it does when it has been killed after each of its writes.

        Only statements that contain `of` count, and not those that contain `but`.
        """
        self._killed.clear()
        self._counts = lambda what: of in what and not (but and but in what)
        while not self._passes(run):
            pass
        assert self._killed, "there was no write to be killed behind"

    def _passes(self, run: Callable[[], None]) -> bool:
        self._run.clear()
        self._dead, self._active = False, True
        try:
            run()
        except Killed:
            return False
        finally:
            self._active = False
        assert not self._dead, "the run went on after it was killed"
        return True

    def _cut(self, name: str, write: Callable[..., Any]) -> Callable[..., Any]:
        def writes(self_: Any, *given: Any, **named: Any) -> Any:
            what = _OF_ONE_RUN.sub("", given[0]) if name == "sql" else name
            if not self._active or what.startswith(_READS):
                return write(self_, *given, **named)
            if self._dead:
                raise Killed
            done = write(self_, *given, **named)
            self._kill_behind(what)
            return done

        return writes

    def _kill_behind(self, what: str) -> None:
        with self._lock:
            if not self._dead:
                self._run[what] += 1
                place = (what, self._run[what])
                if place in self._killed or not self._counts(what):
                    return
                self._killed.add(place)
                self.behind.append(what)
            self._dead = True
        raise Killed(what)
