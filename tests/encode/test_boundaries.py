"""The transaction topic: BEGIN and END around a transaction's records, and each record's place in it."""

from dataclasses import replace
from typing import Any, Final

import pytest

from pgrelay.encode.records import EVERY_PARTITION
from pgrelay.encode.selection import Selection
from tests.encode.encoding import OPTIONS, Written, encoder_of, records_of, transaction
from tests.wire import build
from tests.wire.build import INT4, NOON, Column

TRANSACTIONS: Final = replace(OPTIONS, transactions=True)
PEOPLE, PETS = 16384, 16385
RELATIONS: Final = (
    build.relation(PEOPLE, "public", "people", "d", [Column("id", INT4, key=True)]),
    build.relation(PETS, "public", "pets", "d", [Column("id", INT4, key=True)]),
)
ID: Final = "754:6144"
"""The xid and the commit LSN of `transaction`."""


def of(*messages: bytes, options: Any = TRANSACTIONS, **more: Any) -> list[Written]:
    """The records of one transaction in which both tables are described."""
    return records_of(transaction(*RELATIONS, *messages, **more), encoder_of(options))


def boundary(status: str, count: int | None, counts: dict[str, int] | None) -> dict[str, Any]:
    collections = (
        None
        if counts is None
        else [{"data_collection": name, "event_count": number} for name, number in counts.items()]
    )
    return {
        "status": status,
        "id": ID,
        "event_count": count,
        "data_collections": collections,
        "ts_ms": NOON // 1000,
        "commit_lsn": 0x1800,
    }


def places(rows: list[Written]) -> list[tuple[int, int]]:
    """Each record's total order and its order within its table."""
    orders = [row.value["transaction"] for row in rows if row.value is not None]
    assert {order["id"] for order in orders} == {ID}
    return [(order["total_order"], order["data_collection_order"]) for order in orders]


def test_begin_precedes_the_first_record_and_end_follows_the_last() -> None:
    begin, row, end = of(build.insert(PEOPLE, ["1"]))
    assert row.topic == "app.public.people"
    assert begin.value == boundary("BEGIN", None, None)
    assert end.value == boundary("END", 1, {"public.people": 1})


def test_boundaries_are_keyed_by_transaction_id_and_go_to_one_partition() -> None:
    begin, _, end = of(build.insert(PEOPLE, ["1"]))
    for record in (begin, end):
        assert (record.topic, record.key, record.partition) == ("app.transaction", {"id": ID}, 0)


def test_records_are_counted_in_total_and_by_table() -> None:
    _, *rows, end = of(
        build.insert(PEOPLE, ["1"]),
        build.insert(PETS, ["1"]),
        build.update(PEOPLE, ["1"]),
        build.insert(PETS, ["2"]),
    )
    assert places(rows) == [(1, 1), (2, 1), (3, 2), (4, 2)]
    assert end.value == boundary("END", 4, {"public.people": 2, "public.pets": 2})


def test_a_key_change_counts_twice_and_its_tombstone_not_at_all() -> None:
    _, *rows, end = of(build.update(PEOPLE, ["2"], key=["1"]))
    assert places(rows) == [(1, 1), (2, 2)]
    assert end.value == boundary("END", 2, {"public.people": 2})


def test_a_truncate_counts_once_for_each_table() -> None:
    _, *rows, end = of(build.truncate([PEOPLE, PETS]))
    assert [row.partition for row in rows] == [EVERY_PARTITION, EVERY_PARTITION]
    assert places(rows) == [(1, 1), (2, 1)]
    assert end.value == boundary("END", 2, {"public.people": 1, "public.pets": 1})


def test_a_transactional_message_counts_as_its_own_collection() -> None:
    _, row, end = of(build.message("note", b"hi", lsn=0x1000))
    assert places([row]) == [(1, 1)]
    assert end.value == boundary("END", 1, {"message": 1})


def test_a_message_outside_transactions_has_no_boundaries() -> None:
    (record,) = of(build.message("note", b"hi", lsn=0x1000, transactional=False), xid=None)
    assert record.value["transaction"] is None


def test_a_transaction_without_records_has_no_boundaries() -> None:
    assert of() == []


def test_a_transaction_of_excluded_tables_only_has_no_boundaries() -> None:
    options = replace(TRANSACTIONS, selection=Selection(exclude=(r"public\.people",)))
    assert of(build.insert(PEOPLE, ["1"]), options=options) == []


def test_changes_of_excluded_tables_are_not_counted() -> None:
    options = replace(TRANSACTIONS, selection=Selection(exclude=(r"public\.people",)))
    _, row, end = of(build.insert(PEOPLE, ["1"]), build.insert(PETS, ["1"]), options=options)
    assert places([row]) == [(1, 1)]
    assert end.value == boundary("END", 1, {"public.pets": 1})


def test_counts_restart_with_every_transaction() -> None:
    encoder = encoder_of(TRANSACTIONS)
    records_of(transaction(*RELATIONS, build.insert(PEOPLE, ["1"])), encoder)
    _, row, end = records_of(transaction(build.insert(PEOPLE, ["2"]), xid=755, commit_lsn=0x2000), encoder)
    assert row.value["transaction"] == {"id": "755:8192", "total_order": 1, "data_collection_order": 1}
    assert (end.value["id"], end.value["event_count"]) == ("755:8192", 1)


@pytest.mark.parametrize("cut", range(2, 8))
def test_a_transaction_encoded_in_pieces_has_one_begin_and_one_end(cut: int) -> None:
    events = transaction(*RELATIONS, build.insert(PEOPLE, ["1"]), build.insert(PETS, ["1"]))
    encoder = encoder_of(TRANSACTIONS)
    pieces = records_of(events[:cut], encoder) + records_of(events[cut:], encoder)
    assert pieces == records_of(events, encoder_of(TRANSACTIONS))


def test_a_streamed_transaction_has_the_same_boundaries() -> None:
    def changes(xid: int | None) -> list[bytes]:
        relation = build.relation(PEOPLE, "public", "people", "d", [Column("id", INT4, key=True)], xid=xid)
        return [
            relation,
            build.insert(PEOPLE, ["1"], xid=xid),
            build.update(PEOPLE, ["2"], key=["1"], xid=xid),
            build.truncate([PEOPLE], xid=xid),
        ]

    streamed = records_of(transaction(*changes(754), streamed=True), encoder_of(TRANSACTIONS))
    assert streamed == records_of(transaction(*changes(None)), encoder_of(TRANSACTIONS))


def test_without_the_transaction_topic_a_records_transaction_is_null() -> None:
    (row,) = of(build.insert(PEOPLE, ["1"]), options=OPTIONS)
    assert row.value["transaction"] is None
