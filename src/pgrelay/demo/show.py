"""The show: count, fold and display records as they arrive."""

import time
from collections.abc import Callable
from typing import Final

from pgrelay.demo.fold import Fold
from pgrelay.demo.lake import Lake
from pgrelay.demo.screen import Screen
from pgrelay.demo.slot import Slot
from pgrelay.demo.tally import Tally
from pgrelay.demo.topics import Topics
from pgrelay.demo.view import Feed
from pgrelay.demo.workload import Workload

_TURN_S: Final = 0.1

# On a busy machine a large transaction may pause for some turns before the rest of it arrives.
_QUIET_TURNS: Final = 20


class Show:
    """`check_servers` is called every turn; an exception from it ends the show."""

    def __init__(
        self,
        screen: Screen,
        topics: Topics,
        slot: Slot,
        workload: Workload,
        check_servers: Callable[[], None],
        lake: Lake | None = None,
    ) -> None:
        self.tally = Tally(workload.rolled_back)
        self.fold = Fold()
        self.feed = Feed()
        self._screen = screen
        self._topics = topics
        self._slot = slot
        self._workload = workload
        self._check_servers = check_servers
        self._lake = lake
        self._quiet_turns = 0

    def run_until(self, done: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Take turns until `done` returns True; return False if that takes longer than `timeout_s`."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not done():
            if deadline is not None and time.monotonic() > deadline:
                return False
            self._turn()
        return True

    def end(self) -> None:
        """Show the counts that are still held back."""
        self._screen.show(self.feed.flush())

    def _turn(self) -> None:
        self._check_servers()
        self._topics.find_new_topics()
        changes = self._topics.read(_TURN_S)
        for change in changes:
            self.tally.add(change)
            if self._lake is not None:
                self._lake.expect(change)
            self._screen.show(self.feed.lines(change, self.fold.apply(change)))
        self._quiet_turns = 0 if changes else self._quiet_turns + 1
        if self._quiet_turns == _QUIET_TURNS:
            self._screen.show(self.feed.flush())
        if self._lake is not None:
            self._screen.show(self._lake.progress(self.fold.counts()))
        if self._screen.live:
            lag_bytes = max(0, self._slot.wal_end() - self._slot.confirmed())
            self._screen.set_status(self.tally.status(lag_bytes, self._workload.title))
