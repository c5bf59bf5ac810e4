"""After a crash, what was delivered already is skipped, and nothing else differs."""

from dataclasses import replace
from typing import Final

import pytest

from pgrelay.assembly.events import Event
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.records import Record
from tests.encode.encoding import OPTIONS, encoder_of, records_of, segments, transaction
from tests.wire import build
from tests.wire.build import INT4, Column

ALL_KINDS: Final = replace(OPTIONS, transactions=True, headers=True)
PEOPLE, PETS = 16384, 16385
RELATIONS: Final = (
    build.relation(PEOPLE, "public", "people", "d", [Column("id", INT4, key=True)]),
    build.relation(PETS, "public", "pets", "d", [Column("id", INT4, key=True)]),
)
CHANGES: Final = (
    build.insert(PEOPLE, ["1"]),
    build.update(PEOPLE, ["2"], key=["1"]),  # a delete, its tombstone and a create
    build.message("note", b"hi", lsn=0x1000),
    build.truncate([PEOPLE, PETS]),
    build.insert(PETS, ["3"]),
    build.delete(PETS, key=["3"]),
)
COUNT: Final = 8
"""The changes by `seq`: a tombstone has that of its delete."""

FIRST, SECOND, THIRD = 0x1800, 0x2800, 0x3800
"""Where the transactions commit; each ends 8 bytes later."""


def stream() -> list[Event]:
    return [
        *transaction(*RELATIONS, *CHANGES, xid=1, commit_lsn=FIRST),
        *transaction(*CHANGES, xid=2, commit_lsn=SECOND),
        *transaction(*CHANGES, xid=3, commit_lsn=THIRD),
    ]


def relayed(encoder: Encoder, events: list[Event]) -> list[Record]:
    return [record for segment in segments(encoder, events) for record in segment.records]


def skipping(lsn: int, cut_lsn: int | None = None, cut_seq: int | None = None) -> Encoder:
    encoder = encoder_of(ALL_KINDS)
    encoder.skip_delivered(lsn, cut_lsn, cut_seq)
    return encoder


def of_transaction(commit_lsn: int) -> list[Record]:
    """BEGIN, the records and END of one transaction if nothing is skipped."""
    everything = relayed(encoder_of(ALL_KINDS), stream())
    share = len(everything) // 3
    return everything[share * ((commit_lsn - FIRST) // 0x1000) :][:share]


def seq(record: Record) -> int:
    headers = dict(record[3] or [])
    return int(headers["seq"] or b"")


def test_each_change_has_its_own_seq() -> None:
    _, *rows, _ = of_transaction(SECOND)
    assert {seq(record) for record in rows} == set(range(COUNT))
    assert len(rows) == COUNT + 2  # the tombstones


def test_nothing_is_skipped_if_nothing_was_delivered() -> None:
    everything = of_transaction(FIRST) + of_transaction(SECOND) + of_transaction(THIRD)
    assert relayed(skipping(0x1000), stream()) == everything


def test_transactions_that_ended_by_the_position_are_skipped() -> None:
    assert relayed(skipping(FIRST + 8), stream()) == of_transaction(SECOND) + of_transaction(THIRD)
    assert relayed(skipping(SECOND + 8), stream()) == of_transaction(THIRD)
    assert relayed(skipping(THIRD + 8), stream()) == []


def test_a_transaction_that_commits_at_the_position_is_not_skipped() -> None:
    assert relayed(skipping(SECOND), stream()) == of_transaction(SECOND) + of_transaction(THIRD)


@pytest.mark.parametrize("cut", range(COUNT + 1))
def test_a_cut_transaction_goes_on_at_its_seq(cut: int) -> None:
    begin, *rows, end = of_transaction(SECOND)
    rest = [record for record in rows if seq(record) >= cut]
    expected = [*([] if cut else [begin]), *rest, end, *of_transaction(THIRD)]
    assert relayed(skipping(FIRST + 8, SECOND, cut), stream()) == expected


@pytest.mark.parametrize("cut", range(COUNT + 1))
def test_skipped_changes_are_not_counted_as_records(cut: int) -> None:
    encoder = skipping(FIRST + 8, SECOND, cut)
    relayed(encoder, stream())
    assert sum(count for _, _, count in encoder.take_counts()) == (COUNT - cut) + COUNT


def test_the_position_counts_skipped_changes() -> None:
    encoder = skipping(FIRST + 8, SECOND, 5)
    events = transaction(*RELATIONS, *CHANGES[:2], commit_lsn=SECOND)[:-1]
    assert relayed(encoder, events) == []
    assert encoder.position == (SECOND, 3)


def test_a_cut_transaction_encoded_in_pieces_goes_on_at_its_seq() -> None:
    events = stream()
    whole = relayed(skipping(FIRST + 8, SECOND, 4), events)
    for piece in range(1, len(events)):
        encoder = skipping(FIRST + 8, SECOND, 4)
        assert relayed(encoder, events[:piece]) + relayed(encoder, events[piece:]) == whole


def test_a_cut_streamed_transaction_goes_on_at_its_seq() -> None:
    def changes(xid: int | None) -> list[bytes]:
        relation = build.relation(PEOPLE, "public", "people", "d", [Column("id", INT4, key=True)], xid=xid)
        rows = [build.insert(PEOPLE, [str(number)], xid=xid) for number in range(5)]
        return [relation, *rows]

    plain = transaction(*changes(None), commit_lsn=SECOND)
    streamed = transaction(*changes(754), commit_lsn=SECOND, streamed=True)
    expected = relayed(skipping(FIRST, SECOND, 3), plain)
    assert [seq(record) for record in expected[:-1]] == [3, 4]
    assert relayed(skipping(FIRST, SECOND, 3), streamed) == expected


def test_a_nontransactional_message_is_skipped_by_its_own_lsn() -> None:
    def message(lsn: int) -> list[Event]:
        content = build.message("note", b"hi", lsn=lsn, transactional=False)
        return transaction(content, xid=None, commit_lsn=lsn, lsn=lsn)

    events = [*message(0x1000), *message(0x2000)]
    assert relayed(skipping(0x1000), events) == relayed(encoder_of(ALL_KINDS), events)[1:]


@pytest.mark.parametrize("cut", [None, 2])
def test_a_transaction_committing_where_a_skipped_message_ends_is_kept(cut: int | None) -> None:
    content = build.message("note", b"hi", lsn=SECOND, transactional=False)
    message = transaction(content, xid=None, commit_lsn=SECOND, lsn=SECOND)
    follows = transaction(*RELATIONS, *CHANGES, commit_lsn=SECOND)
    expected = relayed(skipping(FIRST, SECOND, cut), follows)
    assert relayed(skipping(SECOND, SECOND, cut), [*message, *follows]) == expected
    assert len(expected) == len(of_transaction(SECOND)) - (0 if cut is None else 4)  # BEGIN and a tombstone


# --- What a transaction that is skipped leaves behind

ROWS: Final = [build.insert(PEOPLE, ["1"]), build.delete(PEOPLE, key=["1"]), build.insert(PEOPLE, ["2"])]
ONE: Final = transaction(RELATIONS[0], *ROWS, commit_lsn=FIRST)


def test_relations_of_skipped_transactions_still_hold() -> None:
    encoder = encoder_of()
    encoder.skip_delivered(FIRST + 8, None, None)
    assert records_of(ONE, encoder) == []
    (record,) = records_of(transaction(build.insert(PEOPLE, ["3"]), commit_lsn=SECOND), encoder)
    assert record.value["after"] == {"id": 3}


def test_a_cut_transaction_has_only_its_end_boundary() -> None:
    """BEGIN was delivered with the first record; END was not."""
    encoder = encoder_of(replace(OPTIONS, transactions=True))
    encoder.skip_delivered(FIRST, FIRST, 2)
    found = records_of(ONE, encoder)
    assert [record.topic for record in found] == ["app.public.people", "app.transaction"]
    assert found[0].value["transaction"] == {
        "id": "754:6144",
        "total_order": 3,
        "data_collection_order": 3,
    }
    assert (found[1].value["status"], found[1].value["event_count"]) == ("END", 3)
