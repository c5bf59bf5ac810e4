"""Values that come in binary, the form that each type's send function writes: their text, and their JSON.

A value is converted to the text that its type's output function would print under the settings that
``pgrelay.encode.values.text`` names, and that text is encoded as usual, in JSON here and in ``avro.types`` in
Avro. So by construction a value gives the same record whether it came as text or binary. Only arrays, hstore
and bytea skip the text, since what is written follows from the binary form as simply.

Unknown here (None): the types that send an OID and print a name (regclass and its like), composites, tsquery,
aclitem, and every extension's type except those in `_BY_NAME` and hstore; and hstore if the server converts
text.
"""

from binascii import hexlify
from typing import Final

from pgrelay.encode import oids
from pgrelay.encode.binary.addresses import inet_text, macaddr8_text, macaddr_text, uuid_text
from pgrelay.encode.binary.containers import (
    array_decoder,
    hstore_decoder,
    int2vector_text,
    oidvector_text,
    snapshot_text,
    tsvector_text,
)
from pgrelay.encode.binary.fields import require_size, uint16, uint32
from pgrelay.encode.binary.geometric import (
    box_text,
    circle_text,
    line_text,
    lseg_text,
    path_text,
    point_text,
    polygon_text,
)
from pgrelay.encode.binary.numbers import (
    bits_text,
    double_text,
    int2_text,
    int4_text,
    int8_text,
    money_text,
    numeric_text,
    real_text,
    unsigned4_text,
    unsigned8_text,
)
from pgrelay.encode.binary.ranges import multirange_decoder, range_decoder
from pgrelay.encode.binary.times import (
    date_text,
    interval_text,
    time_text,
    timestamp_text,
    timestamptz_text,
    timetz_text,
)
from pgrelay.encode.encodings import BASE64, CONVERT, HEX, OBJECT, Converter, Encodings, array_of
from pgrelay.encode.invalid_value import invalid_value
from pgrelay.encode.types import ColumnType
from pgrelay.encode.values.json_value import QUOTED, RAW, JsonEncoding, json_base64, json_hex
from pgrelay.encode.values.text import string_converter, text_encoding


def binary_encoding(column: ColumnType, choices: Encodings) -> JsonEncoding | None:
    """The encoding of a column's values that come in binary; None if we don't know that form."""
    if column.oid == oids.BYTEA:
        return _BYTEA_HEX if choices.binary == "hex" else _BYTEA_BASE64
    if column.is_array:
        element = binary_encoding(column.element_type(), choices)
        if element is None:
            return None
        return JsonEncoding(CONVERT, array_of(element.name), array_decoder(element.encode))
    if column.is_hstore:
        if choices.server_transcodes:
            return None
        return JsonEncoding(CONVERT, OBJECT, hstore_decoder(string_converter(choices)))
    decode = text_decoder(column, choices)
    if decode is None:
        return None
    encoding = text_encoding(column, choices)
    if decode is same_text:
        return encoding
    return JsonEncoding(CONVERT, encoding.name, _through_text(decode, encoding))


def text_decoder(column: ColumnType, choices: Encodings) -> Converter | None:
    """A function from a value's binary form to its text; None if we don't know the form."""
    if column.typtype == "e":
        return same_text
    if column.typtype in ("r", "m"):
        part = None if column.element is None else text_decoder(column.element, choices)
        if part is None:
            return None
        return range_decoder(part) if column.typtype == "r" else multirange_decoder(part)
    if column.oid == oids.PG_LSN and choices.padded_lsn:
        return padded_lsn_text
    if column.typtype == "b":
        return _BY_OID.get(column.oid) or _BY_NAME.get(column.name)
    return None


def _through_text(decode: Converter, encoding: JsonEncoding) -> Converter:
    """An encoding that decodes a value to text and encodes the text."""
    if encoding.kind == RAW:
        return decode
    if encoding.kind == QUOTED:
        return lambda value: b'"' + decode(value) + b'"'
    return lambda value: encoding.encode(decode(value))


def boolean_text(value: bytes) -> bytes:
    """A byte: 1 is true, 0 false."""
    if value == b"\1":
        return b"t"
    if value == b"\0":
        return b"f"
    raise invalid_value(value, "a boolean's binary form")


def bytea_text(value: bytes) -> bytes:
    """The bytes themselves, printed as ``\\x`` and hexadecimal digits."""
    return b"\\x" + hexlify(value)


def char_text(value: bytes) -> bytes:
    """``"char"``; its zero byte prints as nothing."""
    return b"" if require_size(value, 1) == b"\0" else value


def tid_text(value: bytes) -> bytes:
    """Int32 block, Int16 offset: ``(0,1)``."""
    return b"(%d,%d)" % (uint32(require_size(value, 6), 0), uint16(value, 4))


def pg_lsn_text(value: bytes) -> bytes:
    """Int64: ``16/B374D848``."""
    return b"%X/%X" % (uint32(require_size(value, 8), 0), uint32(value, 4))


def padded_lsn_text(value: bytes) -> bytes:
    """The same since PostgreSQL 19: ``0/01790D40``."""
    return b"%X/%08X" % (uint32(require_size(value, 8), 0), uint32(value, 4))


def versioned_text(value: bytes) -> bytes:
    """A byte of 1, the version of the form, then the text: jsonb and jsonpath."""
    if value[:1] != b"\1":
        raise invalid_value(value, "of version 1 of its binary form")
    return value[1:]


def same_text(value: bytes) -> bytes:
    """The binary form is the text."""
    return value


_BYTEA_BASE64: Final = JsonEncoding(CONVERT, BASE64, json_base64)
_BYTEA_HEX: Final = JsonEncoding(CONVERT, HEX, json_hex)

_BY_OID: Final[dict[int, Converter]] = {
    oids.BOOL: boolean_text,
    oids.BYTEA: bytea_text,
    oids.CHAR: char_text,
    oids.NAME: same_text,
    oids.INT8: int8_text,
    oids.INT2: int2_text,
    oids.INT2VECTOR: int2vector_text,
    oids.INT4: int4_text,
    oids.TEXT: same_text,
    oids.OID: unsigned4_text,
    oids.TID: tid_text,
    oids.XID: unsigned4_text,
    oids.CID: unsigned4_text,
    oids.OIDVECTOR: oidvector_text,
    oids.JSON: same_text,
    oids.XML: same_text,
    oids.POINT: point_text,
    oids.LSEG: lseg_text,
    oids.PATH: path_text,
    oids.BOX: box_text,
    oids.POLYGON: polygon_text,
    oids.LINE: line_text,
    oids.CIDR: inet_text,
    oids.FLOAT4: real_text,
    oids.FLOAT8: double_text,
    oids.CIRCLE: circle_text,
    oids.MACADDR8: macaddr8_text,
    oids.MONEY: money_text,
    oids.MACADDR: macaddr_text,
    oids.INET: inet_text,
    oids.BPCHAR: same_text,
    oids.VARCHAR: same_text,
    oids.DATE: date_text,
    oids.TIME: time_text,
    oids.TIMESTAMP: timestamp_text,
    oids.TIMESTAMPTZ: timestamptz_text,
    oids.INTERVAL: interval_text,
    oids.TIMETZ: timetz_text,
    oids.BIT: bits_text,
    oids.VARBIT: bits_text,
    oids.NUMERIC: numeric_text,
    oids.REFCURSOR: same_text,
    oids.UUID: uuid_text,
    oids.TXID_SNAPSHOT: snapshot_text,
    oids.PG_LSN: pg_lsn_text,
    oids.TSVECTOR: tsvector_text,
    oids.JSONB: versioned_text,
    oids.JSONPATH: versioned_text,
    oids.PG_SNAPSHOT: snapshot_text,
    oids.XID8: unsigned8_text,
    oids.OID8: unsigned8_text,
}

# Types of extensions that come with PostgreSQL; their OIDs differ from one database to the next.
_BY_NAME: Final[dict[str, Converter]] = {
    "citext": same_text,
    "ltree": versioned_text,
    "lquery": versioned_text,
    "ltxtquery": versioned_text,
}
