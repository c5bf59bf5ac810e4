"""What every envelope keeps of its transaction; and what was delivered before is left out on a restart."""

from dataclasses import replace
from typing import Final

import pytest

from pgrelay.assembly.events import Event, TransactionBegin
from pgrelay.encode.debezium import DebeziumJson
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.envelope import Envelope
from pgrelay.encode.flat import FlatJson
from pgrelay.encode.options import RecordOptions
from tests.encode.encoding import OPTIONS, encoder_of, records_of, transaction
from tests.wire import build
from tests.wire.build import INT4, NOON, Column

OID: Final = 16384
ORDERS: Final = build.relation(OID, "public", "orders", "d", [Column("id", INT4, key=True)])
FLAT: Final = replace(OPTIONS, envelope="flat")


@pytest.fixture(params=[DebeziumJson(OPTIONS), FlatJson(FLAT)], ids=["debezium", "flat"])
def envelope(request: pytest.FixtureRequest) -> Envelope:
    assert isinstance(request.param, Envelope)
    return request.param


def seqs(
    events: list[Event],
    skip: tuple[int, int | None, int | None],
    options: RecordOptions = OPTIONS,
    encoder: Encoder | None = None,
) -> list[tuple[int, int, bool]]:
    """Commit LSN and seq of each record that is not left out, and whether it is a tombstone."""
    encoder = encoder or encoder_of(replace(options, headers=True))
    encoder.skip(*skip)
    found = [record for record in records_of(events, encoder) if "seq" in record.headers]
    return [
        (int(record.headers["commit_lsn"] or 0), int(record.headers["seq"] or 0), record.value is None)
        for record in found
    ]


# --- The transaction


def test_a_transaction_begins_at_seq_0(envelope: Envelope) -> None:
    envelope.begin(TransactionBegin(754, 0x1800, NOON))
    assert (envelope.seq, envelope.commit_lsn, envelope.commit_us) == (0, 0x1800, NOON)
    assert (envelope.xid, envelope.origin, envelope.in_transaction) == (b"754", b"null", True)
    envelope.seq = 7
    envelope.set_origin("site")
    envelope.end()
    envelope.begin(TransactionBegin(None, 0x1900, NOON))
    assert (envelope.seq, envelope.commit_lsn, envelope.previous_commit) == (0, 0x1900, 0x1800)
    assert (envelope.xid, envelope.origin, envelope.in_transaction) == (b"null", b"null", False)


def test_transactions_are_numbered(envelope: Envelope) -> None:
    """So that what a plan has cached of one is never taken for the next one's, whatever its commit LSN."""
    serials = set()
    for _ in range(3):
        envelope.begin(TransactionBegin(754, 0x1800, NOON))
        serials.add(envelope.serial)
    assert len(serials) == 3


# --- What was delivered before

NOTHING: Final = (0, None, None)
ROWS: Final = [build.insert(OID, ["1"]), build.delete(OID, key=["1"]), build.insert(OID, ["2"])]
FIRST: Final = transaction(ORDERS, *ROWS, commit_lsn=0x1800)
SECOND: Final = transaction(*ROWS, commit_lsn=0x1808, xid=755)

ALL_OF_FIRST: Final = [(0x1800, 0, False), (0x1800, 1, False), (0x1800, 1, True), (0x1800, 2, False)]
ALL_OF_SECOND: Final = [(0x1808, seq, tombstone) for _, seq, tombstone in ALL_OF_FIRST]


@pytest.mark.parametrize("options", [OPTIONS, FLAT], ids=["debezium", "flat"])
def test_nothing_is_left_out_of_what_was_not_delivered(options: RecordOptions) -> None:
    assert seqs(FIRST + SECOND, NOTHING, options) == ALL_OF_FIRST + ALL_OF_SECOND


def test_whole_transactions_that_end_where_delivery_stood() -> None:
    """The first ends at 0x1808, where the second commits: that one is not whole."""
    assert seqs(FIRST + SECOND, (0x1808, None, None)) == ALL_OF_SECOND
    assert seqs(FIRST + SECOND, (0x1810, None, None)) == []


@pytest.mark.parametrize(
    ("seq", "left"),
    [
        (0, ALL_OF_SECOND),
        (1, ALL_OF_SECOND[1:]),
        (2, ALL_OF_SECOND[3:]),
        (3, []),
    ],
)
def test_the_records_of_a_transaction_that_was_cut(seq: int, left: list[tuple[int, int, bool]]) -> None:
    """A tombstone goes with its delete. The rest have the seq that they always had."""
    assert seqs(FIRST + SECOND, (0x1808, 0x1808, seq)) == left


def test_the_cut_concerns_that_transaction_alone() -> None:
    second = transaction(ORDERS, *ROWS, commit_lsn=0x1808, xid=755)
    third = transaction(*ROWS, commit_lsn=0x1900, xid=756)
    left = seqs(second + third, (0x1808, 0x1808, 2))
    assert left == [*ALL_OF_SECOND[3:], *((0x1900, seq, tombstone) for _, seq, tombstone in ALL_OF_FIRST)]


def test_the_relations_of_what_is_left_out_hold_for_what_follows() -> None:
    encoder = encoder_of()
    encoder.skip(0x1810, None, None)
    assert records_of(FIRST, encoder) == []
    (record,) = records_of(transaction(build.insert(OID, ["3"]), commit_lsn=0x1900), encoder)
    assert record.value["after"] == {"id": 3}


def test_the_boundaries_of_a_transaction_that_was_cut() -> None:
    """BEGIN was delivered with the first record; END was not."""
    encoder = encoder_of(replace(OPTIONS, transactions=True))
    encoder.skip(0x1800, 0x1800, 2)
    found = records_of(FIRST, encoder)
    assert [record.topic for record in found] == ["app.public.orders", "app.transaction"]
    assert found[0].value["transaction"] == {
        "id": "754:6144",
        "total_order": 3,
        "data_collection_order": 3,
    }
    assert (found[1].value["status"], found[1].value["event_count"]) == ("END", 3)


def test_the_boundaries_of_a_transaction_that_is_left_out() -> None:
    encoder = encoder_of(replace(OPTIONS, transactions=True))
    encoder.skip(0x1808, None, None)
    assert records_of(FIRST, encoder) == []
