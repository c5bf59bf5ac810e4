"""The queries beside the stream: what they ask, how often, and what happens with the results. No server."""

import asyncio
from collections.abc import Sequence
from typing import Final, cast

import pytest

from pgrelay.assembly.prepared import PreparedStore
from pgrelay.config import SourceConfig
from pgrelay.errors import SetupError
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.slots import SlotWal
from pgrelay.relay.publications import Publications, PublishedTables
from pgrelay.relay.renames import Renames
from pgrelay.relay.server_poll import ServerPoll
from tests.clock import Clock

WAL: Final = SlotWal(asked_at=0, wal_end=0x9000, confirmed_lsn=0x1000, restart_lsn=0x800, safe=float("inf"))


class FakeCatalog(Catalog):
    """A server with one table; each poll takes so many seconds."""

    def __init__(self, clock: Clock, takes_s: float = 0) -> None:
        self._clock = clock
        self._takes_s = takes_s
        self.polls = 0
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()

    async def slot_wal(self, slot: str) -> SlotWal:
        self.polls += 1
        self.asked.set()
        await self.answers.wait()
        self._clock.now += self._takes_s
        return WAL

    async def published_tables(self, names: Sequence[str]) -> list[tuple[int, str, str]]:
        return [(16400, "public", "t")]


class FakePublications(Publications):
    """One of them may be gone."""

    def __init__(self, gone: bool = False) -> None:
        super().__init__(SourceConfig(dsn="", slot="s", publications=("p",)))
        self._gone = gone

    async def check(self, catalog: Catalog, relayed_lsn: int) -> None:
        if self._gone:
            raise SetupError(f"gone after {relayed_lsn}")


class FakeStore:
    """Has some prepared transactions whose commit is past. Compiled, the real one has no heirs."""

    def __init__(self) -> None:
        self.left = 25

    def purge(self, restart_lsn: int, most: int) -> int:
        assert restart_lsn == WAL.restart_lsn
        purged = min(self.left, most)
        self.left -= purged
        return purged


class Polling:
    """A poll and everything around it."""

    def __init__(self, clock: Clock, takes_s: float = 0, gone: bool = False) -> None:
        self.catalog = FakeCatalog(clock, takes_s)
        self.store = FakeStore()
        self.woken = asyncio.Event()
        renames = Renames({}, lambda _: True, {})
        prepared = cast(PreparedStore, self.store)
        self.poll = ServerPoll(self.catalog, "s", FakePublications(gone), prepared, renames, self.woken.set)

    async def once(self) -> None:
        """Begin a poll and wait for its end, without processing its result."""
        self.poll.turn(7)
        await asyncio.wait_for(self.woken.wait(), 60)
        self.woken.clear()


async def test_results_are_ready_when_the_loop_is_woken(clock: Clock) -> None:
    polling = Polling(clock)
    assert (polling.poll.wal_end, polling.poll.published) == (0, None)
    await polling.once()
    assert polling.poll.wal_end == WAL.wal_end
    assert polling.poll.published == PublishedTables({16400: "public.t"}, frozenset())
    assert polling.store.left == 0


async def test_an_error_is_raised_in_the_next_turn(clock: Clock) -> None:
    polling = Polling(clock, gone=True)
    await polling.once()
    with pytest.raises(SetupError, match="gone after 7"):
        polling.poll.turn(8)


@pytest.mark.parametrize(("takes_s", "rests_s"), [(0, 2), (0.1, 2), (0.5, 5), (6, 10)])
async def test_it_rests_ten_times_as_long_as_it_took_but_two_to_ten_seconds(
    takes_s: float, rests_s: float, clock: Clock
) -> None:
    polling = Polling(clock, takes_s)
    await polling.once()
    polling.poll.turn(7)
    assert polling.poll.due_in_s() == pytest.approx(rests_s)
    clock.now += rests_s - 0.01
    polling.poll.turn(7)
    assert polling.catalog.polls == 1
    clock.now += 0.02
    await polling.once()
    assert polling.catalog.polls == 2


async def test_one_poll_is_under_way_at_a_time_and_is_cancelled_at_the_end(clock: Clock) -> None:
    polling, before = Polling(clock), asyncio.all_tasks()
    polling.catalog.answers.clear()
    polling.poll.turn(7)
    await asyncio.wait_for(polling.catalog.asked.wait(), 60)
    assert polling.poll.due_in_s() == float("inf")
    clock.now += 100
    polling.poll.turn(7)
    assert len(asyncio.all_tasks() - before) == 1
    await polling.poll.close()
    assert polling.catalog.polls == 1
    assert asyncio.all_tasks() == before
