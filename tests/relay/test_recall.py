"""What Kafka remembers is believed only where it can be true of the server."""

from typing import Final

import pytest

from pgrelay.errors import GapError
from pgrelay.kafka.offsets import Delivered
from pgrelay.relay.recall import Server

SLOT: Final = 0x1000
LEFT: Final = 0x3000
WAL_END: Final = 0x9000


def server(timeline: int | None = 2, left_at: int | None = LEFT) -> Server:
    """A server that left timeline 1 for 2."""

    async def wal_end() -> int:
        return WAL_END

    async def asked(of: int) -> int | None:
        assert of == 1
        return left_at

    return Server(SLOT, wal_end, asked, timeline)


@pytest.mark.parametrize(
    "delivered",
    [
        Delivered(SLOT),
        Delivered(WAL_END),
        Delivered(SLOT, commit_lsn=WAL_END, seq=3),
        Delivered(WAL_END, timeline=2),
        Delivered(LEFT, timeline=1),
    ],
)
async def test_a_position_between_the_slot_and_the_end_of_wal_is_believed(delivered: Delivered) -> None:
    await server().check(delivered)


async def test_a_slot_beyond_it_was_moved_or_made_anew() -> None:
    with pytest.raises(GapError, match="slot stands at 0/1000, and Kafka has everything up to 0/FFF:"):
        await server().check(Delivered(SLOT - 1))


async def test_a_server_that_has_not_come_so_far_was_restored() -> None:
    with pytest.raises(GapError, match="server's WAL ends at 0/9000: it was restored from a backup"):
        await server().check(Delivered(WAL_END + 1))


async def test_a_standby_that_was_promoted_before_it_had_all_is_refused() -> None:
    with pytest.raises(GapError, match="left timeline 1 at 0/3000, before 0/3001, which we have relayed"):
        await server().check(Delivered(LEFT + 1, timeline=1))


async def test_so_is_one_that_was_never_on_that_timeline() -> None:
    with pytest.raises(GapError, match="left timeline 1 before 0/2000"):
        await server(left_at=None).check(Delivered(0x2000, timeline=1))


async def test_the_timeline_of_a_standby_means_nothing() -> None:
    await server(timeline=None).check(Delivered(LEFT + 1, timeline=1))
