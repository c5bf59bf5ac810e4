"""The catalogue is queried once it shows the transaction that sent the relation. There is no server."""

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
    """A catalogue with these successive snapshots: transaction 10 runs, and then does not.

    `asked` has S for each snapshot, and Q for any other query.
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


async def test_without_need_for_the_catalogue_nothing_is_queried() -> None:
    server = Server("10")
    assert await facts_by(server).fetch(PLAIN, 10) == RelationFacts()
    assert server.asked == ""


@pytest.mark.parametrize("asking", [ARRAY, relation(INT4, identity="f"), relation(16400)])
async def test_the_catalogue_is_queried_once_it_shows_the_transaction(asking: pgoutput.Relation) -> None:
    server = Server("10", "10", "")
    await facts_by(server).fetch(asking, 10)
    assert server.asked.startswith("SSSQ")


@pytest.mark.parametrize("xid", [9, 11, None])
async def test_other_transactions_are_not_waited_for(xid: int | None) -> None:
    server = Server("10")
    await facts_by(server).fetch(ARRAY, xid)
    assert server.asked == "SQ"


async def test_a_transaction_that_stays_invisible_is_an_error_with_its_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pgrelay.postgres.snapshot._TIMEOUT_S", 0.0)
    with pytest.raises(SourceUnavailable, match=r"^transaction 10 is in the WAL.*; start the standby, or "):
        await facts_by(Server("10", standbys="s1")).fetch(ARRAY, 10)


async def test_a_transaction_that_may_wait_for_us_is_waited_for_briefly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pgrelay.postgres.snapshot._OWN_STANDBY_TIMEOUT_S", 0.0)
    server = Server("10", standbys="FIRST 1 (s1, pgrelay)")
    await facts_by(server).fetch(ARRAY, 10)
    assert server.asked.endswith("Q")


async def test_asking_ahead_ends_at_the_first_invisible_transaction() -> None:
    server = Server("10")
    wanted = [(PLAIN, 10), (ARRAY, 9), (PLAIN, 10), (ARRAY, 10), (ARRAY, 11)]
    assert len(await facts_by(server).fetch_ahead(wanted)) == 3
    assert server.asked == "SQ"
