"""What a slot keeps on disk is opened while its stream waits. No server."""

import asyncio
from pathlib import Path

import pytest

from pgrelay.assembly.open_transaction import OpenTransaction
from pgrelay.assembly.prepared import PreparedStore
from pgrelay.assembly.spool import Spool
from pgrelay.errors import GapError
from pgrelay.postgres.source import Source
from pgrelay.relay.spooling import open_spool
from pgrelay.wire.transactions import Prepare

KEPT = 5


class FakeSource(Source):
    """Keeps the status updates."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int]] = []

    def send_status(self, received_lsn: int, flush_lsn: int, *, reply: bool = False) -> bool:
        self.sent.append((received_lsn, flush_lsn))
        return True


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A slot's directory, with some prepared transactions of an earlier run."""
    spool = Spool(tmp_path / "7301-s")
    spool.open()
    store = PreparedStore(spool)
    for xid in range(KEPT):
        transaction = OpenTransaction(xid, spool.buffer(f"{xid}-prepare"))
        store.keep(transaction, Prepare(0x800, 0x830 + xid, 0, xid, "g"))
    spool.close()
    return spool.directory


def opened(directory: Path, source: Source, status_interval_s: float) -> PreparedStore:
    spool, prepared = asyncio.run(open_spool(directory, source, status_interval_s))
    spool.close()
    return prepared


def test_what_an_earlier_run_prepared_is_found(kept: Path) -> None:
    source = FakeSource()
    prepared = opened(kept, source, 60)
    assert all(prepared.find(xid, "g") for xid in range(KEPT))
    assert source.sent == []


def test_while_much_is_read_the_server_hears_of_us_and_the_slot_stays(kept: Path) -> None:
    """The stream has begun: the server would cut a client that is silent for wal_sender_timeout."""
    source = FakeSource()
    opened(kept, source, 0)
    assert source.sent == [(0, 0)] * KEPT


def test_others_have_their_turn_while_much_is_read(kept: Path) -> None:
    async def turns() -> int:
        opening = asyncio.create_task(open_spool(kept, FakeSource(), 60))
        count = 0
        while not opening.done():
            count += 1
            await asyncio.sleep(0)
        opening.result()[0].close()
        return count

    assert asyncio.run(turns()) >= KEPT


def test_a_spool_that_can_not_be_read_is_closed(kept: Path) -> None:
    (kept / "9-0000000000000900.prepared").write_text("{}")
    with pytest.raises(GapError, match="not a prepared transaction of ours"):
        opened(kept, FakeSource(), 60)
    (kept / "9-0000000000000900.prepared").unlink()
    # It would still be in use otherwise.
    opened(kept, FakeSource(), 60)
