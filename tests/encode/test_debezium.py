"""Debezium's envelope: before, after, source, op, the times and transaction, in this order."""

import json
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.assembly.events import Event
from pgrelay.encode.encoder import Encoder
from tests.encode.encoding import NOW, OPTIONS, encoder_of, records, records_of, segments, transaction
from tests.wire import build
from tests.wire.build import INT4, NOON, UNCHANGED, Column

OID: Final = 16384
ORDERS: Final = build.relation(
    OID, "public", "orders", "d", [Column("id", INT4, key=True), Column("item"), Column("big")]
)
STREAMED: Final = build.relation(
    OID, "public", "orders", "d", [Column("id", INT4, key=True), Column("item"), Column("big")], xid=755
)
SOURCE: Final = [
    *("version", "connector", "name", "ts_ms", "ts_us", "snapshot", "db", "schema", "table"),
    *("txId", "lsn", "xmin", "sequence", "commit_lsn", "seq", "origin"),
]


def values(events: list[Event], encoder: Encoder) -> list[bytes]:
    """The raw values, without tombstones."""
    found = [value for segment in segments(encoder, events) for _, _, value, _, _ in segment.records]
    return [value for value in found if value is not None]


def sources(*messages: bytes) -> list[dict[str, Any]]:
    return [record.value["source"] for record in records(*messages) if record.value is not None]


def insert(number: int = 1) -> bytes:
    return build.insert(OID, [str(number), "tea", None])


# --- Shape


def test_a_value_byte_for_byte() -> None:
    (value,) = values(transaction(ORDERS, insert()), encoder_of())
    assert value.decode() == (
        '{"before":null,"after":{"id":1,"item":"tea","big":null},'
        '"source":{"version":"0.1.0","connector":"postgresql","name":"app",'
        '"ts_ms":1709208000000,"ts_us":1709208000000000,"snapshot":"false",'
        '"db":"shop","schema":"public","table":"orders","txId":754,"lsn":4112,"xmin":null,'
        '"sequence":"[null,\\"4112\\"]","commit_lsn":6144,"seq":0,"origin":null},'
        '"op":"c","ts_ms":1709208001234,"ts_us":1709208001234567,"transaction":null}'
    )


ROWS: Final = ["before", "after"]
REST: Final = ["source", "op", "ts_ms", "ts_us", "transaction"]


@pytest.mark.parametrize(
    ("message", "op", "members"),
    [
        (insert(), "c", ROWS + REST),
        (build.update(OID, ["1", "tea", "big"]), "u", ROWS + REST),
        (build.update(OID, ["1", "tea", UNCHANGED]), "u", [*ROWS, "unchanged", *REST]),
        (build.update(OID, ["1", "tea", "big"], old=["1", "tea", "big"]), "u", ROWS + REST),
        (build.delete(OID, key=["1", None, None]), "d", ROWS + REST),
        (build.truncate([OID]), "t", [*ROWS, "truncate", *REST]),
        (build.message("audit", b"..."), "m", [*ROWS, "message", *REST]),
    ],
)
def test_every_op_has_its_members_in_a_fixed_order(message: bytes, op: str, members: list[str]) -> None:
    value = records(ORDERS, message)[0].value
    assert value["op"] == op
    assert list(value) == members
    assert list(value["source"]) == SOURCE


def test_no_record_keeps_anything_from_the_one_before() -> None:
    """This concerns unchanged columns, rows, and a truncate's member."""
    alone = [
        json.loads(values(transaction(ORDERS, message, lsn=0x1000), encoder_of())[0])
        for message in (build.update(OID, ["1", "tea", UNCHANGED]), build.truncate([OID]), insert())
    ]
    together = [
        record.value
        for record in records(
            ORDERS, build.update(OID, ["1", "tea", UNCHANGED]), build.truncate([OID]), insert()
        )
    ]
    for one, other in zip(alone, together, strict=True):
        assert {name: one[name] for name in one if name != "source"} == {
            name: other[name] for name in other if name != "source"
        }


# --- Source


def test_lsn_is_the_changes_own_and_commit_lsn_the_commits() -> None:
    first, second = sources(ORDERS, insert(1), insert(2))
    assert (first["lsn"], second["lsn"]) == (0x1010, 0x1020)
    assert (first["commit_lsn"], second["commit_lsn"]) == (0x1800, 0x1800)


def test_lsns_are_integers_however_large() -> None:
    top = 2**64 - 1
    (record,) = records_of(transaction(ORDERS, insert(), commit_lsn=top - 8, lsn=top - 16), encoder_of())
    assert record.value["source"]["lsn"] == top
    assert record.value["source"]["commit_lsn"] == top - 8


def test_seq_counts_the_records_of_a_transaction_from_0() -> None:
    encoder = encoder_of()
    first = records_of(transaction(ORDERS, insert(1), insert(2), insert(3)), encoder)
    second = records_of(transaction(insert(4), commit_lsn=0x1900), encoder)
    assert [record.value["source"]["seq"] for record in first + second] == [0, 1, 2, 0]


def test_sequence_holds_the_previous_commit_and_the_changes_lsn() -> None:
    """It is a JSON array in a string, as in Debezium, with null if nothing was committed yet."""
    encoder = encoder_of()
    first = records_of(transaction(ORDERS, insert(1), insert(2)), encoder)
    records_of(transaction(commit_lsn=0x1900), encoder)
    second = records_of(transaction(insert(3), commit_lsn=0x1A00), encoder)
    assert [json.loads(record.value["source"]["sequence"]) for record in first + second] == [
        [None, str(0x1010)],
        [None, str(0x1020)],
        [str(0x1900), str(0x1000)],
    ]


def test_the_source_has_the_commits_time_and_the_envelope_the_relays() -> None:
    (record,) = records_of(transaction(ORDERS, insert(), commit_us=NOON + 1_999), encoder_of())
    assert (record.value["source"]["ts_us"], record.value["source"]["ts_ms"]) == (
        NOON + 1_999,
        NOON // 1000 + 1,
    )
    assert (record.value["ts_us"], record.value["ts_ms"]) == (NOW, NOW // 1000)


def test_each_transaction_has_its_own_id_and_time() -> None:
    """What is cached for one is never used for the next, even if both commit at the same LSN."""
    encoder = encoder_of()
    records_of(transaction(ORDERS, insert(1), insert(2)), encoder)
    (record,) = records_of(transaction(insert(3), xid=755, commit_us=NOON + 5_000), encoder)
    source = record.value["source"]
    assert (source["txId"], source["ts_us"], source["ts_ms"]) == (755, NOON + 5_000, NOON // 1000 + 5)


def test_the_relays_time_is_that_of_each_encode_call() -> None:
    encoder = encoder_of()
    begin, relation, row, end = transaction(ORDERS, insert())
    found = []
    for now_us, batch in ((NOW, [begin, relation, row]), (NOW + 1, [row, end])):
        found += records_of(batch, encoder, now_us=now_us)
    assert [record.value["ts_us"] for record in found] == [NOW, NOW + 1]


def test_a_nontransactional_message_has_no_transaction_id() -> None:
    message = build.message("audit", b"...", lsn=0x1800, transactional=False)
    (record,) = records_of(transaction(message, xid=None, lsn=0x1800), encoder_of())
    source = record.value["source"]
    assert (source["txId"], source["commit_lsn"], source["lsn"], source["seq"]) == (None, 0x1800, 0x1800, 0)
    assert (source["schema"], source["table"]) == ("", "")


def test_every_record_has_its_transactions_origin() -> None:
    encoder = encoder_of()
    first = records_of(transaction(ORDERS, build.origin(0x77, 'site "ü"'), insert(), insert()), encoder)
    second = records_of(transaction(insert(), commit_lsn=0x1900), encoder)
    assert [record.value["source"]["origin"] for record in first + second] == ['site "ü"'] * 2 + [None]


names = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=20)


@given(names, names, names)
def test_any_identifier_is_kept(schema: str, table: str, column: str) -> None:
    relation = build.relation(OID, schema, table, "n", [Column(column)])
    (record,) = records(relation, build.insert(OID, ["tea"]), options=replace(OPTIONS, database=table))
    source = record.value["source"]
    assert (source["db"], source["schema"], source["table"]) == (table, schema, table)
    assert record.value["after"] == {column: "tea"}


def test_identifiers_that_are_not_utf8_become_escaped_surrogates() -> None:
    """They come from a database in SQL_ASCII."""
    relation = build.relation(OID, "public", b"caf\xe9", "n", [Column("id"), Column("\udce9")])
    ((record,),) = [
        segment.records
        for segment in segments(encoder_of(), transaction(relation, build.insert(OID, ["1", "x"])))
        if segment.records
    ]
    assert record[2] is not None
    assert b'"table":"caf\\udce9"' in record[2]
    assert b'"after":{"id":"1","\\udce9":"x"}' in record[2]


# --- The same records from streams and repetitions


def test_a_streamed_transaction_gives_the_same_bytes() -> None:
    changes = [
        (build.insert(OID, ["1", "tea", None]), build.insert(OID, ["1", "tea", None], xid=756)),
        (build.update(OID, ["1", "tea", UNCHANGED]), build.update(OID, ["1", "tea", UNCHANGED], xid=755)),
        (
            build.update(OID, ["2", "tea", "big"], key=["1", None, None]),
            build.update(OID, ["2", "tea", "big"], key=["1", None, None], xid=757),
        ),
        (build.delete(OID, key=["2", None, None]), build.delete(OID, key=["2", None, None], xid=755)),
        (build.truncate([OID], cascade=True), build.truncate([OID], cascade=True, xid=755)),
        (build.message("audit", b"..."), build.message("audit", b"...", xid=755)),
    ]
    plain = [ORDERS, build.origin(0x77, "site"), *(message for message, _ in changes)]
    streamed = [STREAMED, build.origin(0, "site"), *(message for _, message in changes)]
    one = segments(encoder_of(), transaction(*plain))
    other = segments(encoder_of(), transaction(*streamed, streamed=True))
    assert [it for segment in one for it in segment.records] == [
        it for segment in other for it in segment.records
    ]


def test_a_transaction_sent_again_differs_only_in_the_relays_time() -> None:
    """And in `sequence`, which names an earlier commit that may not be sent again."""
    encoder = encoder_of()
    records_of(transaction(ORDERS, insert(1), commit_lsn=0x1700), encoder)
    events = transaction(ORDERS, insert(2), build.delete(OID, key=["2", None, None]))
    first = records_of(events, encoder)
    again = records_of(events, encoder_of(), now_us=NOW + 60_000_000)
    assert [record.key for record in first] == [record.key for record in again]
    for one, other in zip(first, again, strict=True):
        if one.value is None:
            assert other.value is None
            continue
        for value in (one.value, other.value):
            del value["ts_ms"], value["ts_us"], value["source"]["sequence"]
        assert one == other
