"""Origin to Message, each in the manual's layout, in a stream and outside."""

import pytest

from pgrelay.errors import ProtocolError
from pgrelay.wire.pgoutput import (
    Delete,
    Insert,
    Message,
    Origin,
    Relation,
    RelationColumn,
    Truncate,
    Type,
    Update,
    parse,
    parse_relation,
    relation_name,
)
from pgrelay.wire.transactions import Begin, StreamStop
from pgrelay.wire.tuples import TupleData
from tests.wire import build
from tests.wire.build import NOON, UNCHANGED, Column
from tests.wire.layout import layout


def text_row(*values: str) -> TupleData:
    return TupleData(b"t" * len(values), tuple(value.encode() for value in values))


def test_origin() -> None:
    data = layout("""
        4F                          Byte1('O') Identifies the message as an origin message.
        00 00 00 00 01 6B 37 40     Int64 (XLogRecPtr) The LSN of the commit on the origin server.
        "node-b" 00                 String Name of the origin.
    """)
    assert parse(data) == Origin(commit_lsn=0x16B3740, name="node-b")
    assert build.origin(0x16B3740, "node-b") == data


def test_an_origin_in_a_stream_has_no_xid() -> None:
    assert parse(build.origin(0, "node-b"), in_stream=True) == Origin(0, "node-b")


RELATION = """
    52                              Byte1('R') Identifies the message as a relation message.
    {xid}                           Int32 (TransactionId) Xid; only present for streamed transactions.
    00 00 40 00                     Int32 (Oid) OID of the relation.
    "shop" 00                       String Namespace (empty string for pg_catalog).
    "orders" 00                     String Relation name.
    "d"                             Int8 Replica identity setting (same as relreplident in pg_class).
    00 02                           Int16 Number of columns.
    01                              Int8 Flags for the column: 1 marks the column as part of the key.
    "id" 00                         String Name of the column.
    00 00 00 14                     Int32 (Oid) OID of the column's data type.
    FF FF FF FF                     Int32 Type modifier of the column (atttypmod).
    00                              Int8 Flags for the column: 0 for no flags.
    "total" 00                      String Name of the column.
    00 00 06 A4                     Int32 (Oid) OID of the column's data type.
    00 0A 00 06                     Int32 Type modifier of the column (atttypmod).
"""
COLUMNS = [Column("id", build.INT8, key=True), Column("total", build.NUMERIC, typmod=0xA0006)]


def test_relation() -> None:
    data = layout(RELATION.format(xid='""'))
    assert parse(data) == Relation(
        xid=None,
        oid=16384,
        namespace="shop",
        name="orders",
        replica_identity="d",
        columns=(
            RelationColumn(key=True, name="id", type_oid=20, typmod=-1),
            RelationColumn(key=False, name="total", type_oid=1700, typmod=0xA0006),
        ),
    )
    assert build.relation(16384, "shop", "orders", "d", COLUMNS) == data


def test_relation_in_a_stream() -> None:
    data = layout(RELATION.format(xid="00 00 02 DB"))
    relation = parse(data, in_stream=True)
    assert isinstance(relation, Relation)
    assert relation.xid == 731
    assert relation.oid == 16384
    assert build.relation(16384, "shop", "orders", "d", COLUMNS, xid=731) == data


def test_a_relation_is_read_without_its_tag_and_xid() -> None:
    data = build.relation(16384, "shop", "orders", "d", COLUMNS)
    assert parse_relation(data[1:]) == parse(data)


@pytest.mark.parametrize(("sent", "meant"), [("shop", "shop"), ("", "pg_catalog")])
def test_a_relation_is_named_without_its_columns(sent: str, meant: str) -> None:
    data = build.relation(16384, sent, "orders", "d", COLUMNS)
    relation = parse_relation(data[1:])
    assert relation_name(data[1:]) == (relation.namespace, relation.name) == (meant, "orders")


@pytest.mark.parametrize("size", range(len(build.relation(16384, "shop", "orders", "d", COLUMNS)) - 1))
def test_every_truncation_of_a_relation_without_its_tag_is_refused(size: int) -> None:
    data = build.relation(16384, "shop", "orders", "d", COLUMNS)
    with pytest.raises(ProtocolError, match=r"^Relation is truncated: .+ at offset \d+ "):
        parse_relation(data[1 : 1 + size])


def test_bytes_behind_a_relation_without_its_tag_are_refused() -> None:
    data = build.relation(16384, "shop", "orders", "d", COLUMNS)
    with pytest.raises(ProtocolError, match=r"^Relation is oversized: 1 bytes left at offset \d+"):
        parse_relation(data[1:] + b"x")


def test_a_relation_prints_as_its_qualified_name() -> None:
    assert str(parse(build.relation(16384, "shop", "orders", "d", []))) == "shop.orders"


@pytest.mark.parametrize("identity", ["d", "n", "f", "i"])
def test_replica_identities(identity: str) -> None:
    relation = parse(build.relation(16384, "shop", "orders", identity, []))
    assert isinstance(relation, Relation)
    assert relation.replica_identity == identity


def test_an_unknown_replica_identity_is_refused() -> None:
    with pytest.raises(
        ProtocolError, match=r"^Relation 's\.t' has an unknown replica identity 'x' at offset 9$"
    ):
        parse(build.relation(16384, "s", "t", "x", []))


def test_a_name_in_an_error_is_escaped_to_one_line() -> None:
    with pytest.raises(ProtocolError, match=r"^Relation 's\.a\\nb\\udcff' has"):
        parse(build.relation(16384, "s", b"a\nb\xff", "x", []))


def test_an_empty_namespace_is_pg_catalog() -> None:
    relation, named = parse(build.relation(1247, "", "pg_type", "n", [])), parse(build.type_(16, "", "bool"))
    assert isinstance(relation, Relation)
    assert isinstance(named, Type)
    assert relation.namespace == named.namespace == "pg_catalog"


def test_identifiers_that_are_not_utf_8_keep_their_bytes() -> None:
    """A database in SQL_ASCII has no encoding to convert from."""
    relation = parse(build.relation(16384, b"b\xfccher", b"\xff", "d", []))
    assert isinstance(relation, Relation)
    assert relation.namespace.encode("utf-8", "surrogateescape") == b"b\xfccher"
    assert relation.name == "\udcff"


def test_type() -> None:
    data = layout("""
        59                          Byte1('Y') Identifies the message as a type message.
        00 00 40 21                 Int32 (Oid) OID of the data type.
        "shop" 00                   String Namespace (empty string for pg_catalog).
        "mood" 00                   String Name of the data type.
    """)
    assert parse(data) == Type(xid=None, oid=0x4021, namespace="shop", name="mood")
    assert build.type_(0x4021, "shop", "mood") == data


INSERT = """
    49                              Byte1('I') Identifies the message as an insert message.
    {xid}                           Int32 (TransactionId) Xid; only present for streamed transactions.
    00 00 40 00                     Int32 (Oid) OID of the relation.
    "N"                             Byte1('N') Identifies the following TupleData message as a new tuple.
    00 01 "t" 00 00 00 01 "7"       TupleData
"""


def test_insert() -> None:
    data = layout(INSERT.format(xid='""'))
    assert parse(data) == Insert(xid=None, relation_oid=16384, new=text_row("7"))
    assert build.insert(16384, ["7"]) == data


def test_insert_in_a_stream() -> None:
    data = layout(INSERT.format(xid="00 00 02 DB"))
    assert parse(data, in_stream=True) == Insert(xid=731, relation_oid=16384, new=text_row("7"))
    assert build.insert(16384, ["7"], xid=731) == data


def test_update() -> None:
    data = layout("""
        55                          Byte1('U') Identifies the message as an update message.
        00 00 40 00                 Int32 (Oid) OID of the relation.
        "N"                         Byte1('N') Identifies the following TupleData message as a new tuple.
        00 01 "t" 00 00 00 01 "7"   TupleData
    """)
    assert parse(data) == Update(xid=None, relation_oid=16384, old_is_key=False, old=None, new=text_row("7"))
    assert build.update(16384, ["7"]) == data


def test_update_of_the_key() -> None:
    data = layout("""
        55                          Byte1('U') Identifies the message as an update message.
        00 00 40 00                 Int32 (Oid) OID of the relation.
        "K"                         Byte1('K') Identifies the following TupleData submessage as a key.
        00 01 "t" 00 00 00 01 "6"   TupleData
        "N"                         Byte1('N') Identifies the following TupleData message as a new tuple.
        00 01 "t" 00 00 00 01 "7"   TupleData
    """)
    assert parse(data) == Update(
        xid=None, relation_oid=16384, old_is_key=True, old=text_row("6"), new=text_row("7")
    )
    assert build.update(16384, ["7"], key=["6"]) == data


def test_update_under_replica_identity_full() -> None:
    data = layout("""
        55                          Byte1('U') Identifies the message as an update message.
        00 00 40 00                 Int32 (Oid) OID of the relation.
        "O"                         Byte1('O') Identifies the following TupleData message as an old tuple.
        00 01 "t" 00 00 00 01 "6"   TupleData
        "N"                         Byte1('N') Identifies the following TupleData message as a new tuple.
        00 01 "t" 00 00 00 01 "7"   TupleData
    """)
    assert parse(data) == Update(
        xid=None, relation_oid=16384, old_is_key=False, old=text_row("6"), new=text_row("7")
    )
    assert build.update(16384, ["7"], old=["6"]) == data


def test_update_of_the_key_with_an_unchanged_toast_value() -> None:
    """As seen on a server: an n in the key tuple means absent, a u in the new one means not sent."""
    update = parse(build.update(16384, ["7", UNCHANGED], key=["6", None], xid=731), in_stream=True)
    assert isinstance(update, Update)
    assert update.xid == 731
    assert update.old == TupleData(b"tn", (b"6", None))
    assert update.new == TupleData(b"tu", (b"7", None))


@pytest.mark.parametrize(
    ("octet", "data", "by_key"),
    [
        ("K", build.delete(16384, key=["7"]), True),
        ("O", build.delete(16384, old=["7"]), False),
    ],
    ids=["key", "old row"],
)
def test_delete(octet: str, data: bytes, by_key: bool) -> None:
    assert data == layout(f"""
        44                          Byte1('D') Identifies the message as a delete message.
        00 00 40 00                 Int32 (Oid) OID of the relation.
        "{octet}"                   Byte1('K') The following TupleData is a key; Byte1('O') an old tuple.
        00 01 "t" 00 00 00 01 "7"   TupleData
    """)
    assert parse(data) == Delete(xid=None, relation_oid=16384, old_is_key=by_key, old=text_row("7"))


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (build.insert(16384, ["7"]).replace(b"N", b"K"), 5),
        (build.update(16384, ["7"]).replace(b"N", b"X"), 5),
        (build.update(16384, ["7"], key=["6"]).replace(b"N", b"O"), 14),
        (build.delete(16384, key=["7"]).replace(b"K", b"N"), 5),
    ],
    ids=["insert of a key", "update of nothing", "update to an old row", "delete of a new row"],
)
def test_a_tuple_of_the_wrong_kind_is_refused(data: bytes, offset: int) -> None:
    with pytest.raises(ProtocolError, match=f"has a tuple of unexpected kind '.' at offset {offset}$"):
        parse(data)


@pytest.mark.parametrize(
    ("options", "cascade", "restart"),
    [("00", False, False), ("01", True, False), ("02", False, True), ("03", True, True)],
)
def test_truncate(options: str, cascade: bool, restart: bool) -> None:
    data = layout(f"""
        54                          Byte1('T') Identifies the message as a truncate message.
        00 00 00 02                 Int32 Number of relations
        {options}                   Int8 Option bits for TRUNCATE: 1 for CASCADE, 2 for RESTART IDENTITY
        00 00 40 00                 Int32 (Oid) OID of the relation, repeated for each relation.
        00 00 40 05                 Int32 (Oid) OID of the relation, repeated for each relation.
    """)
    assert parse(data) == Truncate(None, cascade, restart, relation_oids=(16384, 16389))
    assert build.truncate([16384, 16389], cascade=cascade, restart_identity=restart) == data


def test_a_truncate_of_minus_one_relations_is_refused() -> None:
    data = b"T" + b"\xff" * 4 + b"\0"
    with pytest.raises(ProtocolError, match=r"^Truncate has -1 relations before offset 5$"):
        parse(data)


@pytest.mark.parametrize(("flags", "transactional"), [("00", False), ("01", True)])
def test_message(flags: str, transactional: bool) -> None:
    data = layout(f"""
        4D                          Byte1('M') Identifies the message as a logical decoding message.
        {flags}                     Int8 Flags: 1 if the logical decoding message is transactional.
        00 00 00 00 01 6B 37 40     Int64 (XLogRecPtr) The LSN of the logical decoding message.
        "audit" 00                  String The prefix of the logical decoding message.
        00 00 00 03                 Int32 Length of the content.
        00 "hi"                     Byten The content of the logical decoding message.
    """)
    assert parse(data) == Message(None, transactional, lsn=0x16B3740, prefix="audit", content=b"\0hi")
    assert build.message("audit", b"\0hi", lsn=0x16B3740, transactional=transactional) == data


def test_in_a_stream_a_messages_xid_comes_before_its_flags() -> None:
    data = build.message("audit", b"", transactional=True, xid=731)
    assert data[:6] == layout('"M" 00 00 02 DB 01')
    assert parse(data, in_stream=True) == Message(731, True, 0, "audit", b"")


def test_a_content_of_negative_length_is_refused() -> None:
    data = b"M" + bytes(9) + b"\0" + b"\xff\xff\xff\xff"
    with pytest.raises(ProtocolError, match=r"^Message is truncated: content at offset 15 wants -1 bytes"):
        parse(data)


def test_a_message_is_read_where_it_starts_in_its_frame() -> None:
    frame = build.xlog_data(build.begin(0x16B3740, xid=731), lsn=0x16B3740)
    assert parse(frame, start=25) == Begin(0x16B3740, NOON, 731)


def test_offsets_in_errors_count_from_the_beginning_of_the_frame() -> None:
    frame = build.xlog_data(build.begin(0x16B3740))[:-1]
    with pytest.raises(
        ProtocolError, match=r"transaction id at offset 42 wants 4 bytes, the message ends at 45$"
    ):
        parse(frame, start=25)


def test_a_message_with_no_fields_is_read_from_its_tag() -> None:
    assert parse(b"E") == StreamStop()


def test_an_empty_message_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"^an empty message has no tag$"):
        parse(b"")
    with pytest.raises(ProtocolError, match=r"^an empty message has no tag$"):
        parse(build.xlog_data(b""), start=25)


def test_an_unknown_tag_is_refused() -> None:
    with pytest.raises(
        ProtocolError, match=r"^unknown message tag 'Z': pgrelay knows pgoutput versions 1 to 4$"
    ):
        parse(b"Z\0\0\0\0")
