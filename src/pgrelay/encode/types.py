"""What a column is (its Postgres type) and how its values are written (its encoding).

Both are looked up once per relation, when its plan is built, never for a row. The built-in types are in a
table here, so that no catalogue has to be read for them: the rows of PostgreSQL 18's ``pg_type`` and
``pg_range``, the same as in 15, without types that no column can have.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

from librt.strings import BytesWriter
from mypy_extensions import i64

from pgrelay.encode import oids

# Takes one value's bytes as the server sent them and returns the whole JSON value (or, if it says so, the
# text of a binary form). Raises ValueError on bytes that the server can't have sent.
Converter = Callable[[bytes], bytes]

# The kinds of encoding, which the per-row loop switches on.
RAW: Final = 0  # the value's bytes are themselves valid JSON
QUOTED: Final = 1  # between quotes as they are: bytes that never need escaping
TEXT: Final = 2  # a JSON string whose bytes may need escaping: `pgrelay.encode.values.escapes`
CONVERT: Final = 3  # `Encoding.convert` gives the whole value
TRUTH: Final = 4  # a boolean
LOCAL: Final = 5  # a timestamp in ISO 8601
INSTANT: Final = 6  # the same of a timestamptz
FLOAT: Final = 7  # a number, or one of the three values that JSON has no number for


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A column's type, domains already resolved to their base type.

    name       pg_type.typname: int4, _int4, hstore, mood
    typmod     pg_attribute.atttypmod, -1 if none was declared; an array's applies to its elements
    element    of an array (typcategory A), its elements' type; of a range, its subtype; of a
               multirange, its range; None for all others
    delimiter  pg_type.typdelim of an array's element type
    typtype    pg_type.typtype: b base, e enum, r range, m multirange, c composite
    sends      whether it has a binary form (pg_type.typsend); what has none always comes as text
    dimensions of an array, those that a domain over it was declared with; 1 where no domain tells more
    """

    oid: int
    name: str
    typmod: int = -1
    element: "ColumnType | None" = None
    delimiter: str = ","
    typtype: str = "b"
    sends: bool = True
    dimensions: int = 1

    @property
    def is_array(self) -> bool:
        """Whether values are arrays in braces. The two vector types have elements too, but aren't."""
        return (
            self.typtype == "b"
            and self.element is not None
            and self.oid != oids.INT2VECTOR
            and self.oid != oids.OIDVECTOR
        )

    @property
    def is_hstore(self) -> bool:
        """Whether values are hstore's pairs. An extension's type is known by its name alone."""
        return self.typtype == "b" and self.name == "hstore"

    def element_type(self) -> "ColumnType":
        """An array's element type, with the array's type modifier."""
        element = self.element
        if element is None:
            raise ValueError(f"{self.name} has no elements")
        return element if self.typmod < 0 else replace(element, typmod=self.typmod)


@dataclass(frozen=True, slots=True)
class Encodings:
    """The operator's choices for types that have more than one good JSON form.

    checked  whether text must be checked to be UTF-8: the server does that for every database except one
             whose encoding is SQL_ASCII
    recoded  whether the server converts text from another encoding; the sizes in hstore's binary form are
             those before the conversion (hstore_io.c, hstore_send), so it can't be read
    """

    numeric: Literal["string", "double", "precise"] = "string"
    time: Literal["iso", "debezium"] = "iso"
    binary: Literal["base64", "hex"] = "base64"
    json: Literal["string", "inline"] = "string"
    checked: bool = False
    recoded: bool = False


@dataclass(frozen=True, slots=True)
class Encoding:
    """How one column's values, or an array's elements, are written: in JSON, or in Avro.

    kind     one of the kinds above, or of the format's own
    name     the encoding's name in the schema topic: in JSON one of the names below, or array<name>
    convert  present if the kind is CONVERT, or one whose usual values `write` writes itself
    """

    kind: int
    name: str
    convert: Converter | None = None

    def write(self, writer: BytesWriter, data: bytes, start: i64, end: i64) -> None:
        """Append the value whose text or binary form is `data[start:end]`.

        Raises ValueError on bytes that the server can't have sent, or that the encoding has no place for.
        """
        raise NotImplementedError

    def written(self, value: bytes) -> bytes:
        """The whole value: a Converter for every kind."""
        if self.kind == CONVERT and self.convert is not None:
            return self.convert(value)
        writer = BytesWriter()
        self.write(writer, value, 0, len(value))
        return writer.getvalue()


# The names of encodings. Together with a column's type they tell a consumer how to read its values.
BOOLEAN: Final = "boolean"
INTEGER: Final = "integer"
NUMBER: Final = "number"  # or one of the strings NaN, Infinity, -Infinity
STRING: Final = "string"
DECIMAL_BASE64: Final = "decimal-base64"  # big-endian two's complement at the declared scale
VARIABLE_DECIMAL: Final = "variable-decimal"  # {"scale": s, "value": decimal-base64}
ISO_DATE: Final = "iso-date"
ISO_TIMESTAMP: Final = "iso-timestamp"
ISO_TIME: Final = "iso-time"
ISO_DURATION: Final = "iso-duration"
EPOCH_DAYS: Final = "epoch-days"  # or one of the strings infinity, -infinity
MICROS: Final = "micros"  # since 1970 or midnight; or one of the strings infinity, -infinity
BASE64: Final = "base64"
HEX: Final = "hex"
JSON: Final = "json"
OBJECT: Final = "object"


def array_of(name: str) -> str:
    """The name of the encoding of arrays whose elements have the encoding of that name."""
    return f"array<{name}>"


# (oid, name, oid of its array type)
_BASE: Final = (
    (16, "bool", 1000),
    (17, "bytea", 1001),
    (18, "char", 1002),
    (19, "name", 1003),
    (20, "int8", 1016),
    (21, "int2", 1005),
    (22, "int2vector", 1006),
    (23, "int4", 1007),
    (24, "regproc", 1008),
    (25, "text", 1009),
    (26, "oid", 1028),
    (27, "tid", 1010),
    (28, "xid", 1011),
    (29, "cid", 1012),
    (30, "oidvector", 1013),
    (114, "json", 199),
    (142, "xml", 143),
    (600, "point", 1017),
    (601, "lseg", 1018),
    (602, "path", 1019),
    (603, "box", 1020),
    (604, "polygon", 1027),
    (628, "line", 629),
    (650, "cidr", 651),
    (700, "float4", 1021),
    (701, "float8", 1022),
    (718, "circle", 719),
    (774, "macaddr8", 775),
    (790, "money", 791),
    (829, "macaddr", 1040),
    (869, "inet", 1041),
    (1033, "aclitem", 1034),
    (1042, "bpchar", 1014),
    (1043, "varchar", 1015),
    (1082, "date", 1182),
    (1083, "time", 1183),
    (1114, "timestamp", 1115),
    (1184, "timestamptz", 1185),
    (1186, "interval", 1187),
    (1266, "timetz", 1270),
    (1560, "bit", 1561),
    (1562, "varbit", 1563),
    (1700, "numeric", 1231),
    (1790, "refcursor", 2201),
    (2202, "regprocedure", 2207),
    (2203, "regoper", 2208),
    (2204, "regoperator", 2209),
    (2205, "regclass", 2210),
    (2206, "regtype", 2211),
    (2950, "uuid", 2951),
    (2970, "txid_snapshot", 2949),
    (3220, "pg_lsn", 3221),
    (3614, "tsvector", 3643),
    (3615, "tsquery", 3645),
    (3642, "gtsvector", 3644),
    (3734, "regconfig", 3735),
    (3769, "regdictionary", 3770),
    (3802, "jsonb", 3807),
    (4072, "jsonpath", 4073),
    (4089, "regnamespace", 4090),
    (4096, "regrole", 4097),
    (4191, "regcollation", 4192),
    (5038, "pg_snapshot", 5039),
    (5069, "xid8", 271),
)

# aclitem and gtsvector.
_WITHOUT_SEND: Final = frozenset((1033, 3642))

# (oid, name, oid of its array type, oid of its subtype)
_RANGES: Final = (
    (3904, "int4range", 3905, 23),
    (3906, "numrange", 3907, 1700),
    (3908, "tsrange", 3909, 1114),
    (3910, "tstzrange", 3911, 1184),
    (3912, "daterange", 3913, 1082),
    (3926, "int8range", 3927, 20),
)

# (oid, name, oid of its array type, oid of its range)
_MULTIRANGES: Final = (
    (4451, "int4multirange", 6150, 3904),
    (4532, "nummultirange", 6151, 3906),
    (4533, "tsmultirange", 6152, 3908),
    (4534, "tstzmultirange", 6153, 3910),
    (4535, "datemultirange", 6155, 3912),
    (4536, "int8multirange", 6157, 3926),
)


def _scalars() -> dict[int, ColumnType]:
    """The types that aren't arrays, by OID."""
    types = {oid: ColumnType(oid, name, sends=oid not in _WITHOUT_SEND) for oid, name, _ in _BASE}
    for oid, name, _, subtype in _RANGES:
        types[oid] = ColumnType(oid, name, element=types[subtype], typtype="r")
    for oid, name, _, range_oid in _MULTIRANGES:
        types[oid] = ColumnType(oid, name, element=types[range_oid], typtype="m")
    return types


_SCALARS: Final[dict[int, ColumnType]] = _scalars()

# An array type's OID to its elements'.
_ELEMENTS: Final[dict[int, int]] = {
    **{array: oid for oid, _, array in _BASE},
    **{array: oid for oid, _, array, _ in _RANGES},
    **{array: oid for oid, _, array, _ in _MULTIRANGES},
}


def builtin_type(oid: int, typmod: int = -1) -> ColumnType | None:
    """The built-in type with that OID: base, range, multirange or an array of one; None if there is none."""
    scalar = _SCALARS.get(oid)
    if scalar is not None:
        return replace(scalar, typmod=typmod)
    element = _ELEMENTS.get(oid)
    if element is None:
        return None
    of = builtin_type(element, typmod)
    return ColumnType(oid, f"_{_SCALARS[element].name}", typmod, of, ";" if element == oids.BOX else ",")
