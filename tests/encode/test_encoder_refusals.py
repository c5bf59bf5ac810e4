"""Bytes against the protocol, and values that can't be encoded: an error, never half a record."""

import struct
from dataclasses import replace
from typing import Final, Literal

import pytest

from pgrelay.assembly.events import TransactionBegin
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.encodings import Encodings
from pgrelay.encode.needs import Announcement
from pgrelay.encode.options import DeadLetterOptions, RecordOptions
from pgrelay.encode.plan import RelationFacts
from pgrelay.encode.records import Segment
from pgrelay.encode.selection import Selection
from pgrelay.encode.types import ColumnType
from pgrelay.errors import PgrelayError, ProtocolError, RecordError, SetupError
from tests.encode.encoding import NOW, OPTIONS, encoder_of, outcomes, transaction
from tests.wire import build
from tests.wire.build import BOOL, INT4, NOON, UNCHANGED, Binary, Column, xlog_data

OID: Final = 16384
LSN: Final = 0x16B374D848
COLUMNS: Final = [Column("id", INT4, key=True), Column("item"), Column("paid", BOOL)]
ORDERS: Final = build.relation(OID, "public", "orders", "d", COLUMNS)
ROW: Final = ["1", "tea", "t"]


def ready_encoder(
    relation: bytes = ORDERS, facts: RelationFacts | None = None, options: RecordOptions = OPTIONS
) -> Encoder:
    """An encoder with every need met for the relation's rows and for messages."""
    encoder = encoder_of(options)
    known = transaction(relation, build.truncate([OID]), build.message("audit", b""))
    list(outcomes(encoder, known, facts or RelationFacts()))
    return encoder


def refused(encoder: Encoder, message: bytes, streamed: bool = False) -> PgrelayError:
    """The error that the message raises inside a transaction, which must leave no record."""
    encoder.feed([TransactionBegin(754, 0x1800, NOON, streamed), xlog_data(message, LSN)])
    with pytest.raises(PgrelayError) as caught:
        encoder.encode(NOW)
    assert str(caught.value).endswith(" (LSN 16/B374D848)")
    return caught.value


def refusal(encoder: Encoder, message: bytes, streamed: bool = False) -> str:
    return str(refused(encoder, message, streamed)).removesuffix(" (LSN 16/B374D848)")


def test_a_whole_transaction_before_a_refused_one_comes_out_first() -> None:
    encoder = ready_encoder()
    encoder.feed(
        [
            *transaction(build.insert(OID, ROW)),
            TransactionBegin(755, 0x1900, NOON, False),
            xlog_data(build.insert(OID, ROW), LSN),
            xlog_data(build.insert(OID, ROW)[:-1], LSN),
        ]
    )
    (whole,) = encoder.encode(NOW)
    assert isinstance(whole, Segment)
    assert whole.end_lsn is not None
    assert len(whole.records) == 1
    for _ in range(2):
        assert encoder.pending
        with pytest.raises(ProtocolError, match="truncated"):
            encoder.encode(NOW)


# --- Truncated and oversized

XID: Final = 755
MESSAGES: Final = {
    "insert": build.insert(OID, ROW),
    "insert, streamed": build.insert(OID, ROW, XID),
    "update": build.update(OID, ["1", None, UNCHANGED]),
    "update with key": build.update(OID, ROW, key=["2", None, None]),
    "update with old row, streamed": build.update(OID, ROW, old=["2", None, None], xid=XID),
    "delete with key": build.delete(OID, key=["1", None, None]),
    "delete with old row": build.delete(OID, old=ROW),
    "binary": build.insert(OID, [Binary(b"\0\0\0\1"), Binary(b"tea"), Binary(b"\1")]),
    "truncate": build.truncate([OID, OID]),
    "truncate, streamed": build.truncate([OID, OID], xid=XID),
    "message": build.message("audit", b"..."),
    "message, streamed": build.message("audit", b"...", xid=XID),
    "origin": build.origin(0x77, "site"),
    "type": build.type_(16400, "public", "mood"),
    "type, streamed": build.type_(16400, "public", "mood", XID),
}
each_message = pytest.mark.parametrize("name", MESSAGES)
OPTIONS_OF: Final = {
    "json": OPTIONS,
    "json, flat": replace(OPTIONS, envelope="flat"),
    "avro": replace(OPTIONS, format="avro"),
    "avro, flat": replace(OPTIONS, format="avro", envelope="flat"),
    # A change that can't be a record is set aside, but a malformed message never is.
    "dead letters": replace(
        OPTIONS, dead_letters=DeadLetterOptions(), encodings=Encodings(validate_utf8=True)
    ),
    "columns hidden": replace(OPTIONS, selection=Selection(drop=(r".*\.item",), mask=(r".*\.paid",))),
}
each_options = pytest.mark.parametrize("options", OPTIONS_OF.values(), ids=OPTIONS_OF.keys())


@each_message
@each_options
def test_every_truncation_is_refused(name: str, options: RecordOptions) -> None:
    whole = MESSAGES[name]
    for size in range(1, len(whole)):
        error = refused(ready_encoder(options=options), whole[:size], streamed=name.endswith("streamed"))
        assert isinstance(error, ProtocolError)


def test_every_truncation_behind_a_value_that_can_not_be_encoded_is_refused() -> None:
    """It is not set aside: a dead letter has the whole row."""
    whole = build.insert(OID, ["1", b"K\xf6ln", "t"])
    value_ends = whole.index(b"K\xf6ln") + 4
    for size in range(value_ends, len(whole)):
        error = refused(ready_encoder(options=OPTIONS_OF["dead letters"]), whole[:size])
        assert isinstance(error, ProtocolError)


@each_message
@each_options
def test_bytes_left_at_the_end_are_refused(name: str, options: RecordOptions) -> None:
    message = refusal(
        ready_encoder(options=options), MESSAGES[name] + b"\0", streamed=name.endswith("streamed")
    )
    assert "is oversized" in message


@each_message
@each_options
def test_a_whole_message_is_accepted(name: str, options: RecordOptions) -> None:
    encoder = ready_encoder(options=options)
    encoder.feed(
        [TransactionBegin(754, 0x1800, NOON, name.endswith("streamed")), xlog_data(MESSAGES[name], LSN)]
    )
    encoder.encode(NOW)
    assert not encoder.pending


def test_every_truncation_of_a_relation_is_refused() -> None:
    for size in range(1, len(ORDERS)):
        assert "truncated" in refusal(encoder_of(), ORDERS[:size])
    assert "oversized" in refusal(encoder_of(), ORDERS + b"\0")


def test_every_truncation_of_a_relation_between_transactions_is_refused() -> None:
    for size in range(1, len(ORDERS)):
        encoder = encoder_of()
        encoder.feed([xlog_data(ORDERS[:size], LSN)])
        with pytest.raises(ProtocolError, match=r"truncated.*\(LSN 16/B374D848\)"):
            encoder.encode(NOW)


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 3])
def test_a_column_length_beyond_the_message_is_refused(size: int) -> None:
    row = b"I" + struct.pack("!I", OID) + b"N\0\3t" + struct.pack("!i", size) + b"1"
    assert "is truncated" in refusal(ready_encoder(), row)


# --- Not a row of this table


@pytest.mark.parametrize("row", [ROW[:2], [*ROW, "more"], []], ids=["fewer", "more", "none"])
def test_another_number_of_columns_is_refused(row: list[str]) -> None:
    assert refusal(ready_encoder(), build.insert(OID, row)) == (
        f"a row of public.orders has {len(row)} columns, its Relation 3"
    )


def test_a_column_of_unknown_kind_is_refused() -> None:
    row = build.insert(OID, [None, None, None]).replace(b"nnn", b"nxn")
    assert refusal(ready_encoder(), row) == "a row of public.orders has a column of unknown kind 'x', item"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (build.insert(OID, ROW).replace(b"N\0\3", b"X\0\3"), "an insert into public.orders has no new row"),
        (build.insert(OID, ROW).replace(b"N\0\3", b"K\0\3"), "an insert into public.orders has no new row"),
        (
            build.update(OID, ROW).replace(b"N\0\3", b"X\0\3"),
            "the update of a row of public.orders has a tuple of unknown kind 'X'",
        ),
        (
            build.update(OID, ROW, old=ROW).replace(b"N\0\3", b"X\0\3"),
            "an update of public.orders has no new row",
        ),
        (
            build.delete(OID, old=ROW).replace(b"O\0\3", b"N\0\3"),
            "the delete of a row of public.orders has a tuple of unknown kind 'N'",
        ),
    ],
)
def test_a_tuple_of_the_wrong_kind_is_refused(message: bytes, expected: str) -> None:
    assert refusal(ready_encoder(), message) == expected


@pytest.mark.parametrize(
    "message",
    [
        build.insert(99, ROW),
        build.update(99, ROW),
        build.delete(99, old=ROW),
        build.truncate([99]),
        build.truncate([OID, 99]),
    ],
)
def test_a_change_without_a_relation_is_refused(message: bytes) -> None:
    assert refusal(ready_encoder(), message) == "a change of relation 99, which no Relation message described"


# --- Out of place


@pytest.mark.parametrize("message", [build.begin(0x1800), build.commit(0x1800, 0x1808), build.stream_stop()])
def test_a_message_that_is_not_a_change_is_refused(message: bytes) -> None:
    assert refusal(ready_encoder(), message) == f"message {chr(message[0])!r} is not a change"


@pytest.mark.parametrize(
    "message", [build.insert(OID, ROW), build.truncate([OID]), build.message("audit", b"")]
)
def test_a_change_outside_any_transaction_is_refused(message: bytes) -> None:
    encoder = ready_encoder()
    encoder.feed([xlog_data(message, LSN)])
    with pytest.raises(ProtocolError) as caught:
        encoder.encode(NOW)
    assert str(caught.value) == f"message {chr(message[0])!r} outside any transaction (LSN 16/B374D848)"


# --- Values that can't be encoded


def test_a_value_that_postgres_never_prints_is_a_record_error() -> None:
    error = refused(ready_encoder(), build.insert(OID, ["1", "tea", "maybe"]))
    assert isinstance(error, RecordError)
    assert str(error).startswith("public.orders.paid: a value of type bool can't be encoded: ")


def test_the_records_before_a_refused_value_are_whole() -> None:
    encoder = ready_encoder()
    encoder.feed(transaction(build.insert(OID, ROW)))
    (segment,) = encoder.encode(NOW)
    refused(encoder, build.insert(OID, ["1", "tea", "maybe"]))
    assert isinstance(segment, Segment)
    assert len(segment.records) == 1


GEOMETRY: Final = RelationFacts(types={16400: ColumnType(16400, "geometry")})
PLACES: Final = build.relation(OID, "public", "orders", "d", [Column("id", INT4, True), Column("at", 16400)])


def test_the_error_for_an_unknown_binary_form_names_column_and_cure() -> None:
    error = refused(ready_encoder(PLACES, GEOMETRY), build.insert(OID, ["1", Binary(b"\1\1")]))
    assert isinstance(error, SetupError)
    assert str(error).startswith(
        "public.orders.at: pgrelay does not read the binary form of type geometry; set source.binary: false"
    )


def before_first_row(
    facts: RelationFacts, format: Literal["json", "avro"] = "json", selection: Selection = OPTIONS.selection
) -> Encoder:
    """An encoder about to relay a table's first row, which has no such value."""
    encoder = encoder_of(replace(OPTIONS, format=format, binary_values=True, selection=selection))
    encoder.feed(transaction(PLACES, build.insert(OID, ["1", None])))
    encoder.encode(NOW)
    encoder.provide_facts(facts)
    encoder.encode(NOW)
    assert isinstance(encoder.need, Announcement)
    return encoder


@pytest.mark.parametrize("format", ["json", "avro"])
def test_with_binary_on_a_table_with_an_unknown_form_is_refused_at_once(
    format: Literal["json", "avro"],
) -> None:
    with pytest.raises(SetupError) as caught:
        before_first_row(GEOMETRY, format)
    assert str(caught.value) == (
        "public.orders.at: pgrelay does not read the binary form of type geometry; set source.binary: false "
        "(LSN 0/1010)"
    )


@pytest.mark.parametrize("hidden", [Selection(drop=(r".*\.at",)), Selection(mask=(r".*\.at",))])
def test_with_binary_on_a_dropped_or_masked_column_is_not_checked(hidden: Selection) -> None:
    before_first_row(GEOMETRY, selection=hidden)


def test_with_binary_on_a_partition_published_as_its_root_is_not_checked() -> None:
    """The column is dropped by the root's name, but the partition's Relation comes as well."""
    encoder = encoder_of(replace(OPTIONS, binary_values=True))
    encoder.feed(transaction(PLACES))
    encoder.encode(NOW)
    assert encoder.need is None


def test_with_binary_on_a_hashed_column_is_checked() -> None:
    with pytest.raises(SetupError, match=r"public\.orders\.at"):
        before_first_row(GEOMETRY, selection=Selection(hash=(r".*\.at",), hash_key=b"k"))


@pytest.mark.parametrize(
    "facts",
    [RelationFacts(types={16400: ColumnType(16400, "query_int", has_binary_form=False)}), RelationFacts()],
    ids=["no binary form", "dropped since"],
)
def test_with_binary_on_a_type_that_comes_as_text_is_accepted(facts: RelationFacts) -> None:
    before_first_row(facts)


def test_a_type_with_an_unknown_binary_form_is_relayed_as_text() -> None:
    encoder = ready_encoder(PLACES, GEOMETRY)
    encoder.feed(transaction(build.insert(OID, ["1", "0101"])))
    (segment,) = encoder.encode(NOW)
    assert isinstance(segment, Segment)
    ((_, _, value, _, _),) = segment.records
    assert value is not None
    assert b'"after":{"id":1,"at":"0101"}' in value
