"""Whether the server's WAL suffices for logical decoding."""

import pytest

from pgrelay.postgres.wal_level import WalLevel


@pytest.mark.parametrize(
    ("level", "told"),
    [
        (WalLevel("logical"), "wal_level is logical"),
        (WalLevel("logical", standby=True), "wal_level is logical"),
        (WalLevel("logical", "logical"), "wal_level is logical"),
        (WalLevel("replica", "replica"), "wal_level is replica, and logical with the first slot"),
        (WalLevel("replica", "logical"), "wal_level is replica, in effect logical"),
        (WalLevel("replica", "logical", standby=True), "wal_level is replica, in effect logical"),
    ],
)
def test_a_level_suffices_if_a_slot_gets_logical_wal(level: WalLevel, told: str) -> None:
    """Since PostgreSQL 19 the first logical slot raises `replica`."""
    assert level.suffices
    assert str(level) == told


@pytest.mark.parametrize(
    "level", [WalLevel("replica"), WalLevel("minimal", "minimal"), WalLevel("replica", standby=True)]
)
def test_a_level_that_does_not_suffice_has_to_be_raised(level: WalLevel) -> None:
    assert not level.suffices
    assert level.cure == "ALTER SYSTEM SET wal_level = logical, and restart"


def test_a_standby_has_its_primarys_wal() -> None:
    level = WalLevel("logical", "replica", standby=True)
    assert not level.suffices
    assert str(level) == "wal_level is logical, in effect replica"
    assert level.cure == "create a logical slot on the primary, and keep it"
