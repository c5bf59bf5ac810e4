"""Truncates and logical messages."""

from base64 import b64decode
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.encode.records import BY_KEY, EVERY_PARTITION
from tests.encode.encoding import OPTIONS, encoder_of, records, records_of, segments, transaction
from tests.wire import build
from tests.wire.build import INT4, Column

ORDERS: Final = build.relation(16384, "public", "orders", "d", [Column("id", INT4, key=True)])
ITEMS: Final = build.relation(16385, "public", "items", "n", [Column("id", INT4)])


# --- Truncate


def test_a_truncate_is_one_record_for_every_partition() -> None:
    (record,) = records(ORDERS, build.truncate([16384]))
    assert (record.topic, record.key, record.partition) == ("app.public.orders", None, EVERY_PARTITION)
    assert (record.value["op"], record.value["before"], record.value["after"]) == ("t", None, None)
    assert record.headers == {}


@pytest.mark.parametrize("cascade", [False, True])
@pytest.mark.parametrize("restart_identity", [False, True])
def test_a_truncate_carries_its_options(cascade: bool, restart_identity: bool) -> None:
    message = build.truncate([16384], cascade=cascade, restart_identity=restart_identity)
    (record,) = records(ORDERS, message)
    assert record.value["truncate"] == {"cascade": cascade, "restart_identity": restart_identity}


def test_a_truncate_of_several_tables_keeps_their_order() -> None:
    found = records(ORDERS, ITEMS, build.truncate([16385, 16384]))
    assert [record.topic for record in found] == ["app.public.items", "app.public.orders"]
    assert [record.value["source"]["table"] for record in found] == ["items", "orders"]
    assert [record.value["source"]["seq"] for record in found] == [0, 1]
    assert len({record.value["source"]["lsn"] for record in found}) == 1


def test_a_segment_tells_whether_it_has_a_truncate() -> None:
    encoder = encoder_of()
    records_of(transaction(ORDERS, build.insert(16384, ["1"])), encoder)
    (without,) = segments(encoder, transaction(build.insert(16384, ["1"])))
    (with_one,) = segments(encoder, transaction(build.insert(16384, ["1"]), build.truncate([16384])))
    assert (without.has_truncate, with_one.has_truncate) == (False, True)


def test_a_truncate_of_no_tables_has_no_records() -> None:
    assert records(ORDERS, build.truncate([])) == []


# --- Logical messages


def test_a_logical_message_goes_to_the_message_topic_keyed_by_prefix() -> None:
    (record,) = records(build.message("audit", b"\0\xff"))
    assert (record.topic, record.key, record.partition) == ("app.message", {"prefix": "audit"}, BY_KEY)
    assert record.value["message"] == {"prefix": "audit", "content": "AP8="}
    assert (record.value["op"], record.value["before"], record.value["after"]) == ("m", None, None)


def test_a_transactional_message_keeps_its_place_among_the_rows() -> None:
    found = records(
        ORDERS, build.insert(16384, ["1"]), build.message("audit", b""), build.insert(16384, ["2"])
    )
    assert [(record.value["op"], record.value["source"]["seq"]) for record in found] == [
        ("c", 0),
        ("m", 1),
        ("c", 2),
    ]


def test_a_nontransactional_message_is_a_transaction_of_its_own() -> None:
    message = build.message("audit", b"...", lsn=0x1800, transactional=False)
    (segment,) = [it for it in segments(encoder_of(), transaction(message, xid=None)) if it.records]
    assert segment.end_lsn == 0x1808
    (record,) = records_of(transaction(message, xid=None), encoder_of())
    assert (record.value["source"]["txId"], record.value["source"]["seq"]) == (None, 0)


def test_with_keys_off_messages_go_to_one_partition() -> None:
    (record,) = records(build.message("audit", b"..."), options=replace(OPTIONS, key=False))
    assert (record.key, record.partition) == (None, 0)


prefixes = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)


@given(prefixes, st.binary(max_size=40))
def test_any_prefix_and_content_come_through(prefix: str, content: bytes) -> None:
    (record,) = records(build.message(prefix, content))
    assert record.key == {"prefix": prefix}
    assert record.value["message"]["prefix"] == prefix
    assert b64decode(record.value["message"]["content"], validate=True) == content


# --- Headers


def test_truncates_and_messages_have_headers() -> None:
    options = replace(OPTIONS, headers=True)
    found = records(ORDERS, build.truncate([16384]), build.message("audit", b"..."), options=options)
    assert [record.headers for record in found] == [
        {"op": b"t", "commit_lsn": b"6144", "seq": b"0", "txid": b"754"},
        {"op": b"m", "commit_lsn": b"6144", "seq": b"1", "txid": b"754"},
    ]


def test_the_txid_header_of_a_nontransactional_message_is_null() -> None:
    message = build.message("audit", b"...", transactional=False)
    encoder = encoder_of(replace(OPTIONS, headers=True))
    (record,) = records_of(transaction(message, xid=None), encoder)
    assert record.headers["txid"] is None
