"""Which settings decide on `seq`, and what follows if they change between two parts of a transaction."""

from typing import Any, Final

import pytest

from pgrelay.config import Config
from pgrelay.errors import PositionError
from pgrelay.kafka.offsets import Position
from pgrelay.relay.numbering import check_numbering, numbering, renumbers

SAME: Final = {"tables": {"include": ["public.a", "public.b"]}}
CHANGED: Final = {"key": False, "numeric": "precise", "time": "debezium", "format": "avro"}


def digest(records: dict[str, Any] | None = None, **source: Any) -> str:
    sections = {
        "source": {"dsn": "host=db", "publications": ["p", "q"], **source},
        "sink": {"kafka": {"bootstrap.servers": "kafka:9092"}},
        "records": {**SAME, "schema_registry": {"url": "http://registry"}, **(records or {})},
    }
    return numbering(Config.model_validate(sections))


@pytest.mark.parametrize(
    "changed",
    [
        {"publications": ["p"]},
        {"messages": False},
        {"origin": "none"},
        {"records": {"tables": {"include": ["public.a"]}}},
        {"records": {"tables": {"exclude": ["public.a", "public.b"]}}},
        *({"records": {**SAME, name: value}} for name, value in CHANGED.items()),
    ],
    ids=str,
)
def test_settings_that_decide_how_many_records_there_are_change_the_digest(changed: dict[str, Any]) -> None:
    assert digest(**changed) != digest()


@pytest.mark.parametrize(
    "changed",
    [
        {"publications": ["q", "p", "q"]},
        {"slot": "other"},
        {"records": {"tables": {"include": ["public.b", "public.a"]}}},
        {"records": {**SAME, "envelope": "flat", "tombstones": False, "binary": "hex"}},
    ],
    ids=str,
)
def test_others_do_not(changed: dict[str, Any]) -> None:
    assert digest(**changed) == digest()


def test_a_cut_transaction_is_counted_only_by_the_settings_that_it_was_cut_under() -> None:
    cut = Position(0x1000, commit_lsn=0x2000, seq=7, numbering="earlier")
    check_numbering(cut, "earlier")
    expected = (
        r"the first 7 records of the transaction that commits at 0/2000, .*; run with the earlier settings"
    )
    with pytest.raises(PositionError, match=expected):
        check_numbering(cut, "now")


@pytest.mark.parametrize(
    "position",
    [
        Position(0x1000, commit_lsn=0x2000, seq=7),
        Position(0x1000, commit_lsn=0x2000, seq=0, numbering="earlier"),
        Position(0x1000, numbering="earlier"),
    ],
    ids=["of a version that kept no digest", "of a cut before its first record", "of whole transactions"],
)
def test_other_positions_count_nothing(position: Position) -> None:
    check_numbering(position, "now")


def test_a_position_that_was_kept_under_other_settings_is_told_apart() -> None:
    assert renumbers(Position(1, numbering="earlier"), "now")
    assert not renumbers(Position(1, numbering="now"), "now")
    assert not renumbers(Position(1), "now")
