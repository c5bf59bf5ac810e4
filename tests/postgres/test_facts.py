"""The catalogue is asked of a relation once queries see what brought it. No server is there."""

from typing import cast

import pytest

from pgrelay.encode.plan import RelationFacts
from pgrelay.errors import SourceUnavailable
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.facts import Facts
from pgrelay.wire import pgoutput
from tests.wire import build
from tests.wire.build import INT4, Column

INT4_ARRAY = 1007


class Server:
    """A catalogue by whose snapshots, one after the other, transaction 10 runs and then does not.

    `asked` has S for each of them, and Q for any other query.
    """

    server_version = 180000

    def __init__(self, *running: str, standbys: str = "") -> None:
        self.asked = ""
        self._snapshots = [f"10:20:{xids}" for xids in running]
        self._settings = {"synchronous_standby_names": standbys, "application_name": "pgrelay"}

    async def snapshot(self) -> str:
        self.asked += "S"
        return self._snapshots.pop(0) if len(self._snapshots) > 1 else self._snapshots[0]

    async def setting(self, name: str) -> str:
        return self._settings[name]

    async def rows(self, *_: object) -> list[tuple[str, int]]:
        self.asked += "Q"
        return []


def facts_by(server: Server) -> Facts:
    return Facts(cast(Catalog, server))


def relation(*types: int, identity: str = "d") -> pgoutput.Relation:
    columns = [Column(f"c{number}", of) for number, of in enumerate(types)]
    parsed = pgoutput.parse(build.relation(16384, "public", "t", identity, columns))
    assert isinstance(parsed, pgoutput.Relation)
    return parsed


ARRAY, PLAIN = relation(INT4_ARRAY), relation(INT4)


async def test_what_the_stream_tells_waits_for_nobody() -> None:
    server = Server("10")
    assert await facts_by(server).of(PLAIN, 10) == RelationFacts()
    assert server.asked == ""


@pytest.mark.parametrize("asking", [ARRAY, relation(INT4, identity="f"), relation(16400)])
async def test_the_catalogue_is_asked_behind_the_transaction(asking: pgoutput.Relation) -> None:
    server = Server("10", "10", "")
    await facts_by(server).of(asking, 10)
    assert server.asked.startswith("SSSQ")


@pytest.mark.parametrize("xid", [9, 11, None])
async def test_other_transactions_are_not_waited_for(xid: int | None) -> None:
    server = Server("10")
    await facts_by(server).of(ARRAY, xid)
    assert server.asked == "SQ"


async def test_a_transaction_that_stays_unseen_is_told_with_what_holds_it_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pgrelay.postgres.snapshot._PATIENCE_S", 0.0)
    with pytest.raises(SourceUnavailable, match=r"^transaction 10 is in the WAL.*; start the standby, or "):
        await facts_by(Server("10", standbys="s1")).of(ARRAY, 10)


async def test_a_transaction_that_may_wait_for_us_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pgrelay.postgres.snapshot._PATIENCE_WITH_OURSELVES_S", 0.0)
    server = Server("10", standbys="FIRST 1 (s1, pgrelay)")
    await facts_by(server).of(ARRAY, 10)
    assert server.asked.endswith("Q")


async def test_what_is_asked_ahead_ends_where_queries_see_no_further() -> None:
    server = Server("10")
    wanted = [(PLAIN, 10), (ARRAY, 9), (PLAIN, 10), (ARRAY, 10), (ARRAY, 11)]
    assert len(await facts_by(server).ahead(wanted)) == 3
    assert server.asked == "SQ"
