"""Whole records in Avro, read back by fastavro, and against the JSON of the same changes."""

from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.assembly.events import TransactionBegin, TransactionEnd
from pgrelay.encode.encodings import Encodings
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import RelationFacts
from pgrelay.encode.records import EVERY_PARTITION
from pgrelay.encode.selection import Selection
from pgrelay.errors import ProtocolError, RecordError, SetupError
from tests.encode.decoded_avro import avro_records
from tests.encode.encoding import NO_FACTS, NOW, OPTIONS, Written, encoder_of, records, transaction
from tests.wire import build
from tests.wire.build import DATE, INT4, INT8, NOON, NUMERIC, TEXT, UNCHANGED, Binary, Column

AVRO: Final = replace(OPTIONS, format="avro")
FLAT: Final = replace(AVRO, envelope="flat")
OID: Final = 16384
COLUMNS: Final = [Column("id", INT4, key=True), Column("item"), Column("big")]
DEFAULT: Final = build.relation(OID, "public", "orders", "d", COLUMNS)
FULL: Final = build.relation(OID, "public", "orders", "f", [it._replace(key=True) for it in COLUMNS])
WITH_KEY: Final = RelationFacts(primary_key=("id",))


def read(*messages: bytes, options: RecordOptions = AVRO, facts: RelationFacts = NO_FACTS) -> list[Written]:
    return avro_records(encoder_of(options), transaction(*messages), facts)


def row(number: int, item: str | None, big: str | None = None) -> dict[str, Any]:
    return {"id": number, "item": item, "big": big}


def rows(record: Written) -> tuple[Any, str, Any, Any]:
    """Key, op, before and after."""
    return record.key, record.value["op"], record.value["before"], record.value["after"]


def test_an_insert_is_a_whole_record() -> None:
    (record,) = read(DEFAULT, build.insert(OID, ["1", "tea", None]))
    assert (record.topic, record.key) == ("app.public.orders", {"id": 1})
    assert record.value == {
        "before": None,
        "after": row(1, "tea"),
        "unchanged": None,
        "truncate": None,
        "source": {
            "version": "0.1.0",
            "connector": "postgresql",
            "name": "app",
            "ts_ms": NOON // 1000,
            "ts_us": NOON,
            "snapshot": "false",
            "db": "shop",
            "schema": "public",
            "table": "orders",
            "txId": 754,
            "lsn": 0x1010,
            "xmin": None,
            "sequence": '[null,"4112"]',
            "commit_lsn": 0x1800,
            "seq": 0,
            "origin": None,
        },
        "op": "c",
        "ts_ms": NOW // 1000,
        "ts_us": NOW,
        "transaction": None,
    }


def test_an_update_a_key_change_and_a_delete() -> None:
    found = read(
        DEFAULT,
        build.update(OID, ["1", "coffee", "B"]),
        build.update(OID, ["2", "coffee", "B"], key=["1", None, None]),
        build.delete(OID, key=["2", None, None]),
    )
    assert [record.value and rows(record) for record in found] == [
        ({"id": 1}, "u", None, row(1, "coffee", "B")),
        ({"id": 1}, "d", row(1, None), None),
        None,
        ({"id": 2}, "c", None, row(2, "coffee", "B")),
        ({"id": 2}, "d", row(2, None), None),
        None,
    ]
    assert [record.value["source"]["seq"] for record in found if record.value] == [0, 1, 2, 3]


MOVE: Final = build.update(OID, ["2", "a", "B"], key=["1", None, None])


@pytest.mark.parametrize("options", [AVRO, FLAT], ids=["debezium", "flat"])
def test_after_a_key_change_the_headers_hold_the_other_key_as_json(options: RecordOptions) -> None:
    deleted, tombstone, created = read(DEFAULT, MOVE, options=options)
    assert deleted.headers == tombstone.headers == {"__debezium.newkey": b'{"id":2}'}
    assert created.headers == {"__debezium.oldkey": b'{"id":1}'}


def test_under_full_the_key_headers_hold_only_key_columns() -> None:
    update = build.update(OID, ["2", "b", UNCHANGED], old=["1", "a", "B"])
    found = read(FULL, update, facts=WITH_KEY)
    assert [record.headers for record in found] == [
        {"__debezium.newkey": b'{"id":2}'},
        {"__debezium.newkey": b'{"id":2}'},
        {"__debezium.oldkey": b'{"id":1}'},
    ]


def test_key_headers_follow_the_same_settings_as_in_json_records() -> None:
    columns = [Column("price", NUMERIC, key=True), Column("name", TEXT, key=True)]
    relation = build.relation(OID, "public", "t", "d", columns)
    hashing = Selection(hash=(r".*\.name",), hash_key=b"pepper")
    options = replace(AVRO, encodings=Encodings(numeric="double"), selection=hashing)
    moves = [relation, build.update(OID, ["2.50", "b"], key=["1.50", "a"])]
    in_json = records(*moves, options=replace(options, format="json"))
    in_avro = read(*moves, options=options)
    assert [record.headers for record in in_avro] == [record.headers for record in in_json]
    assert in_json[0].headers["__debezium.newkey"].startswith(b'{"price":2.50,"name":"')  # type: ignore[union-attr]


def test_under_full_an_update_has_the_whole_old_row() -> None:
    update = build.update(OID, ["1", "b", UNCHANGED], old=["1", "a", "B"])
    (record,) = read(FULL, update, facts=WITH_KEY)
    assert rows(record) == ({"id": 1}, "u", row(1, "a", "B"), row(1, "b", "B"))
    assert record.value["unchanged"] is None


def test_unchanged_columns_are_null_and_listed() -> None:
    (record,) = read(DEFAULT, build.update(OID, ["1", "b", UNCHANGED]))
    assert record.value["after"] == row(1, "b")
    assert record.value["unchanged"] == ["big"]


def test_a_placeholder_is_used_only_for_types_that_can_hold_it() -> None:
    relation = build.relation(
        OID, "public", "t", "d", [Column("id", INT4, key=True), Column("text"), Column("list", 1007)]
    )
    options = replace(AVRO, placeholder=True)
    (record,) = read(relation, build.update(OID, ["1", UNCHANGED, UNCHANGED]), options=options)
    assert record.value["after"] == {"id": 1, "text": "__debezium_unavailable_value", "list": None}
    assert record.value["unchanged"] == ["list"]


def test_a_truncate_goes_to_every_partition() -> None:
    (record,) = read(DEFAULT, build.truncate([OID], cascade=True))
    assert (record.key, record.partition) == (None, EVERY_PARTITION)
    assert rows(record) == (None, "t", None, None)
    assert record.value["truncate"] == {"cascade": True, "restart_identity": False}


def test_a_logical_message_has_schemas_of_its_own() -> None:
    (record,) = read(build.message("audit", b"\x00\xff"))
    assert (record.topic, record.key) == ("app.message", {"prefix": "audit"})
    assert record.value["message"] == {"prefix": "audit", "content": b"\x00\xff"}
    assert (record.value["op"], record.value["source"]["table"]) == ("m", "")


def test_a_message_outside_a_transaction_has_no_xid() -> None:
    message = build.xlog_data(build.message("p", b"", transactional=False), 0x99)
    begin, end = TransactionBegin(None, 0x99, NOON, False, False), TransactionEnd(0x9A)
    (record,) = avro_records(encoder_of(AVRO), [begin, message, end])
    assert record.value["source"]["txId"] is None


def test_an_origin_is_named() -> None:
    (record,) = read(build.origin(1, "elsewhere"), DEFAULT, build.insert(OID, ["1", None, None]))
    assert record.value["source"]["origin"] == "elsewhere"


def test_transactions_have_boundaries_and_records_their_place() -> None:
    options = replace(AVRO, transactions=True)
    begin, one, two, end = read(
        DEFAULT, build.insert(OID, ["1", None, None]), build.insert(OID, ["2", None, None]), options=options
    )
    identity = "754:6144"
    assert [one.value["transaction"], two.value["transaction"]] == [
        {"id": identity, "total_order": number, "data_collection_order": number} for number in (1, 2)
    ]
    assert begin.key == end.key == {"id": identity}
    common = {"id": identity, "ts_ms": NOON // 1000, "commit_lsn": 0x1800}
    assert begin.value == common | {"status": "BEGIN", "event_count": None, "data_collections": None}
    counts = [{"data_collection": "public.orders", "event_count": 2}]
    assert end.value == common | {"status": "END", "event_count": 2, "data_collections": counts}


# --- The flat envelope


def beside(op: str, seq: int = 0, **more: Any) -> dict[str, Any]:
    common = {"__unchanged": None, "__truncate": None, "__op": op, "__deleted": op == "d"}
    return common | {"__commit_lsn": 0x1800, "__seq": seq, "__ts_ms": NOON // 1000} | more


def test_flat_values_are_the_row_and_the_metadata_fields() -> None:
    found = read(
        DEFAULT,
        build.insert(OID, ["1", "tea", None]),
        build.update(OID, ["1", "b", UNCHANGED]),
        build.delete(OID, key=["1", None, None]),
        build.truncate([OID], restart_identity=True),
        options=FLAT,
    )
    truncate = {"cascade": False, "restart_identity": True}
    assert [(record.key, record.value) for record in found] == [
        ({"id": 1}, row(1, "tea") | beside("c")),
        ({"id": 1}, row(1, "b") | beside("u", 1, __unchanged=["big"])),
        ({"id": 1}, row(1, None) | beside("d", 2)),
        ({"id": 1}, None),
        (None, {"id": None, "item": None, "big": None} | beside("t", 3, __truncate=truncate)),
    ]


def test_a_flat_logical_message() -> None:
    (record,) = read(build.message("audit", b"x"), options=FLAT)
    assert record.value["__message"] == {"prefix": "audit", "content": b"x"}
    assert record.value["__op"] == "m"


def test_a_column_named_like_a_metadata_field_is_refused() -> None:
    relation = build.relation(OID, "public", "t", "d", [Column("__op")])
    with pytest.raises(SetupError, match=r"public\.t\.__op: the flat envelope has a field of that name"):
        read(relation, build.insert(OID, ["x"]), options=FLAT)


# --- Selection


def test_dropped_masked_and_hashed_columns() -> None:
    selection = Selection(drop=(r".*\.big",), mask=(r".*\.item",), hash=(r".*\.id",), hash_key=b"k")
    options = replace(AVRO, selection=selection)
    insert = build.insert(OID, ["1", None, "secret"])
    (record,) = read(DEFAULT, insert, options=options)
    (as_json,) = records(DEFAULT, insert, options=replace(options, format="json"))
    assert record.key == as_json.key
    assert record.value["after"] == as_json.value["after"]
    assert record.value["after"]["item"] == "***"


# --- What can't be encoded


def test_the_error_for_a_value_that_avro_can_not_hold_names_column_and_lsn() -> None:
    relation = build.relation(OID, "public", "t", "d", [Column("id", INT4, key=True), Column("day", DATE)])
    with pytest.raises(RecordError, match=r"public\.t\.day: a value of type date can't be encoded: .*0/1010"):
        read(relation, build.insert(OID, ["1", "infinity"]))


def test_a_null_in_the_key_is_refused() -> None:
    with pytest.raises(RecordError, match=r"public\.orders\.id: a key column is null"):
        read(DEFAULT, build.insert(OID, [None, "a", "b"]))


def test_an_unknown_binary_form_is_refused() -> None:
    relation = build.relation(OID, "public", "t", "d", [Column("id", INT4, key=True), Column("odd", 50_000)])
    with pytest.raises(SetupError, match=r"does not read the binary form .* source\.binary: false"):
        read(relation, build.insert(OID, ["1", Binary(b"x")]))


@pytest.mark.parametrize("options", [AVRO, FLAT])
def test_every_truncated_row_is_refused(options: RecordOptions) -> None:
    whole = build.update(OID, ["1", "b", None], old=["1", "a", "B"])
    for size in range(5, len(whole)):
        with pytest.raises(ProtocolError):
            read(FULL, whole[:size], options=options, facts=WITH_KEY)
    with pytest.raises(ProtocolError, match="oversized"):
        read(FULL, whole + b"\0", options=options, facts=WITH_KEY)


# --- The same changes in both formats

_TEXTS: Final = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
_VALUES: Final = st.tuples(
    st.integers(-(2**31), 2**31 - 1).map(str),
    st.none() | _TEXTS | st.just(UNCHANGED),
    st.none() | st.integers(-(2**63), 2**63 - 1).map(str),
    st.none() | st.decimals(allow_nan=False, allow_infinity=False, places=3).map(lambda value: f"{value:f}"),
)
_MIXED: Final = build.relation(
    *(OID, "public", "mixed", "d"),
    [Column("id", INT4, key=True), Column("a b", TEXT), Column("big", INT8), Column("n", NUMERIC)],
)


@given(st.lists(_VALUES, min_size=1, max_size=5), st.sampled_from(["debezium", "flat"]))
def test_avro_records_equal_the_json_records(changes: list[Any], envelope: Any) -> None:
    messages = [build.update(OID, list(values)) for values in changes]
    options = replace(OPTIONS, envelope=envelope)
    in_json = records(_MIXED, *messages, options=options)
    in_avro = read(_MIXED, *messages, options=replace(options, format="avro"))
    assert len(in_json) == len(in_avro)
    for one, other in zip(in_json, in_avro, strict=True):
        assert one.key == other.key
        assert without_nulls(one.value) == without_nulls(other.value)


def without_nulls(value: Any) -> Any:
    """What both formats can express: Avro has nulls where JSON omits members."""
    if isinstance(value, list):
        return ["a b" if name == "a_x20_b" else name for name in value]
    if not isinstance(value, dict):
        return value
    members = {"a b" if name == "a_x20_b" else name: without_nulls(member) for name, member in value.items()}
    return {name: member for name, member in members.items() if member is not None}
