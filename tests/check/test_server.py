"""The server as a whole."""

from typing import Any

import pytest

from pgrelay.check.server import server_findings
from pgrelay.postgres.wal_level import WalLevel
from tests.check.servers import STANDBY, server, source


def test_a_healthy_server_is_ok() -> None:
    found = server_findings(server(), source(), slot_exists=False)
    assert {finding.level for finding in found} == {"ok"}
    assert "protocol version 4: streaming parallel, text values, messages" in [each.what for each in found]


@pytest.mark.parametrize(
    ("changes", "level", "what", "cure"),
    [
        (
            {"wal_level": WalLevel("replica")},
            "error",
            "wal_level is replica",
            "ALTER SYSTEM SET wal_level = logical, and restart",
        ),
        ({"slots": 10}, "error", "all 10 replication slots are taken", "max_replication_slots = 20"),
        ({"slots": 10, "unread_slots": ("old",)}, "error", "all 10 replication slots", "nobody reads: old"),
        ({"senders": 9}, "warning", "9 of 10 WAL senders are in use", "max_wal_senders = 20"),
        ({"wal_level": STANDBY, "version": 150000}, "error", "the server is a standby", "the primary"),
        ({"wal_level": STANDBY}, "warning", "the server is a standby", "the primary"),
        ({"encoding": "SQL_ASCII"}, "warning", "the encoding of database shop is SQL_ASCII", "UTF8"),
        ({"version": 90600}, "error", "Postgres 9 has no pgoutput", "pgrelay needs 10 or later"),
    ],
)
def test_each_fault_of_a_server_is_reported_with_its_cure(
    changes: dict[str, Any], level: str, what: str, cure: str
) -> None:
    found = server_findings(server(**changes), source(), slot_exists=False)
    (finding,) = (each for each in found if each.level != "ok")
    assert finding.level == level
    assert finding.what.startswith(what)
    assert finding.why
    assert cure in finding.cure


def test_an_existing_slot_needs_no_free_place() -> None:
    found = server_findings(server(slots=10), source(), slot_exists=True)
    assert {finding.level for finding in found} == {"ok"}


def test_an_option_that_the_server_lacks_is_an_error() -> None:
    found = server_findings(server(version=130000), source(streaming="on"), slot_exists=True)
    (finding,) = (each for each in found if each.level == "error")
    assert finding.what.startswith("source.streaming: on needs protocol version 2")
    assert finding.cure == "use auto"
