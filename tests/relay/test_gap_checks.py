"""What Kafka remembers is believed only where it can be true of the server."""

from typing import Final

import pytest

from pgrelay.config import SinkConfig
from pgrelay.errors import GapError, PositionError, SetupError, SourceUnavailable
from pgrelay.kafka.known_topics import KnownTopics
from pgrelay.kafka.offsets import Delivered, Identity, Offsets
from pgrelay.kafka.sink import Sink
from pgrelay.kafka.topics import TopicOf
from pgrelay.postgres.history import History
from pgrelay.postgres.source import System
from pgrelay.relay.gap_checks import Upstream, open_positions

SLOT: Final = 0x1000
LEFT: Final = 0x3000
WAL_END: Final = 0x9000
PROMOTED: Final = History(((1, LEFT),))


def upstream(timeline: int | None = 2, history: History | None = PROMOTED) -> Upstream:
    """A server that left timeline 1 for 2; a standby where the timeline is None."""

    async def wal_end() -> int:
        return WAL_END

    primary = None if timeline is None else System("7", timeline, WAL_END, history)
    return Upstream(SLOT, wal_end, primary)


@pytest.mark.parametrize(
    "delivered",
    [
        Delivered(SLOT),
        Delivered(WAL_END),
        Delivered(SLOT, commit_lsn=WAL_END - 1, seq=3),
        Delivered(SLOT, commit_lsn=WAL_END, seq=0),
        Delivered(WAL_END, timeline=2),
        Delivered(WAL_END, timeline=2, timeline_began=LEFT),
        Delivered(LEFT, timeline=2, timeline_began=LEFT + 8),
        Delivered(LEFT - 8, timeline=2, timeline_began=LEFT - 8),
        Delivered(LEFT, timeline=1),
        Delivered(SLOT, commit_lsn=LEFT - 1, seq=3, timeline=1),
    ],
)
async def test_a_position_between_the_slot_and_the_end_of_wal_is_believed(delivered: Delivered) -> None:
    await upstream().check(delivered)


async def test_a_slot_beyond_it_was_moved_or_made_anew() -> None:
    with pytest.raises(GapError, match="slot stands at 0/1000, but Kafka has everything only up to 0/FFF:"):
        await upstream().check(Delivered(SLOT - 1))


async def test_a_server_that_has_not_come_so_far_was_restored() -> None:
    with pytest.raises(GapError, match="server's WAL ends at 0/9000: it was restored from a backup"):
        await upstream().check(Delivered(WAL_END + 1))


async def test_a_standby_that_was_promoted_before_it_had_all_is_refused() -> None:
    with pytest.raises(GapError, match="left timeline 1 at 0/3000, before 0/3001, which we have relayed"):
        await upstream().check(Delivered(LEFT + 1, timeline=1))


async def test_so_is_one_that_lacks_the_commit_of_a_transaction_of_which_a_part_was_relayed() -> None:
    """Its commit begins where the standby's copy of the timeline ended."""
    with pytest.raises(GapError, match="left timeline 1 at 0/3000, before 0/3001, which we have relayed"):
        await upstream().check(Delivered(SLOT, commit_lsn=LEFT, seq=3, timeline=1))
    with pytest.raises(GapError, match="server's WAL ends at 0/9000: it was restored from a backup"):
        await upstream().check(Delivered(SLOT, commit_lsn=WAL_END, seq=3))


async def test_so_is_one_that_was_never_on_that_timeline() -> None:
    with pytest.raises(GapError, match="left timeline 1 before 0/2000"):
        await upstream(3, History(((2, LEFT),))).check(Delivered(0x2000, timeline=1))


@pytest.mark.parametrize("began", [LEFT - 8, LEFT + 8], ids=["before", "after"])
async def test_so_is_the_second_standby_that_was_promoted_from_one_timeline(began: int) -> None:
    """Both call theirs 2, and what is behind where the first of them began is of two histories."""
    relayed = min(began, LEFT) + 1
    told = (
        f"timeline 2 began at 0/3000, but the one that we relayed up to 0/{relayed:X} "
        f"began at 0/{began:X}: another"
    )
    with pytest.raises(GapError, match=told):
        await upstream().check(Delivered(relayed, timeline=2, timeline_began=began))
    since = History(((1, LEFT), (2, WAL_END)))
    with pytest.raises(GapError, match=told):
        await upstream(3, since).check(Delivered(relayed, timeline=2, timeline_began=began))


async def test_a_server_that_lacks_its_history_is_asked_for_it_only_where_it_left_a_timeline() -> None:
    lacking = upstream(history=None)
    await lacking.check(Delivered(WAL_END, timeline=2, timeline_began=LEFT))
    with pytest.raises(
        PositionError, match=r"lacks the file pg_wal/00000002\.history, .* left timeline 1 \(we have"
    ):
        await lacking.check(Delivered(SLOT, timeline=1))


def test_a_position_tells_of_which_timeline_it_is() -> None:
    assert upstream().delivered(5) == Delivered(5, timeline=2, timeline_began=LEFT)
    assert upstream(1, History()).delivered(5, 7, 1) == Delivered(5, 7, 1, timeline=1)
    assert upstream(history=None).delivered(5) == Delivered(5, timeline=2)
    assert upstream(None).delivered(5) == Delivered(5)


async def test_an_old_primary_that_is_still_there_is_told_as_one() -> None:
    with pytest.raises(
        GapError, match="on timeline 1, but we have relayed up to 0/2000 of timeline 2: it may"
    ):
        await upstream(1, History()).check(Delivered(0x2000, timeline=2, timeline_began=LEFT))


async def test_a_standby_that_has_not_come_so_far_is_waited_for() -> None:
    """After a crash it lets us in before it has replayed again what it had."""
    with pytest.raises(SourceUnavailable, match="the standby has not reached 0/9001, which we have relayed"):
        await upstream(timeline=None).check(Delivered(WAL_END + 1))


async def test_the_timeline_of_a_standby_means_nothing() -> None:
    await upstream(timeline=None).check(Delivered(LEFT + 1, timeline=1))


class FakeTopics(KnownTopics):
    """The offsets topic is there, or may not be made."""

    def __init__(self, ours: bool, heard: bool) -> None:
        self._ours = ours
        self._heard = heard
        self.made = set()

    def __contains__(self, topic: str) -> bool:
        return self._ours and self._heard

    async def require(self, topic: str, of: TopicOf = "rows") -> None:
        if not self._ours:
            raise SetupError("no")


class FakeKafka(Sink):
    """Has the offsets topic, or does not let us make it; `heard`: the broker that is asked knows of it."""

    def __init__(self, ours: bool = True, heard: bool = True) -> None:
        self.topics = FakeTopics(ours, heard)


class FakeOffsets(Offsets):
    """Has one position, or none."""

    def __init__(self, position: Delivered | None) -> None:
        super().__init__(SinkConfig(kafka={"bootstrap.servers": "b"}), "offsets", Identity("7", "db", "s"))
        self._position = position

    async def read(self) -> Delivered | None:
        return self._position


async def check(kept: Delivered | None, known: Delivered | None, heard: bool = True) -> None:
    """What Kafka has kept and this process knows, held against the server as a start does it."""
    await upstream().check_further(await open_positions(FakeKafka(heard=heard), FakeOffsets(kept)), known)


@pytest.mark.parametrize("kept", [None, Delivered(SLOT - 8)], ids=["deleted", "older"])
async def test_what_this_process_has_delivered_counts_where_kafka_knows_less(kept: Delivered | None) -> None:
    """As after the topic was deleted."""
    await check(kept, known=Delivered(SLOT))
    with pytest.raises(GapError, match="Kafka has everything only up to 0/FFF:"):
        await check(kept, known=Delivered(SLOT - 1))


async def test_what_another_has_delivered_counts_where_it_is_more() -> None:
    """It had the slot meanwhile, and moved it."""
    await check(Delivered(SLOT), known=Delivered(1))


async def test_a_first_start_has_nothing_to_compare_with() -> None:
    await check(None, known=None)


async def test_a_topic_that_the_broker_asked_had_not_heard_of_is_read_all_the_same() -> None:
    """As one that is cut off from the controllers: to take the topic for a new one would hide the gap."""
    with pytest.raises(GapError, match="the slot was moved or re-created"):
        await check(Delivered(SLOT - 1), known=None, heard=False)


async def test_a_topic_that_must_not_be_made_is_told() -> None:
    with pytest.raises(SetupError, match=r"^no$"):
        await open_positions(FakeKafka(ours=False), FakeOffsets(None))
