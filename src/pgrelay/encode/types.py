"""What a column is: its Postgres type.

The built-in types are in a table here, so that no catalogue has to be read for them: the rows of PostgreSQL
18's ``pg_type`` and ``pg_range``, the same as in 15, without types that no column can have. Any other type is
built from rows of the catalogue. Source: PostgreSQL manual, "pg_type" and "pg_range".
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pgrelay.encode import oids


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A column's type, domains already resolved to their base type.

    name             pg_type.typname: int4, _int4, hstore, mood
    typmod           pg_attribute.atttypmod, -1 if none was declared; an array's applies to its elements
    element          of an array (typcategory A), its elements' type; of a range, its subtype; of a
                     multirange, its range; None for all others
    delimiter        pg_type.typdelim of an array's element type
    typtype          pg_type.typtype: b base, e enum, r range, m multirange, c composite
    has_binary_form  the type has a send function (pg_type.typsend); what has none always comes as text
    dimensions       of an array, those that a domain over it was declared with; 1 if no domain says more
    """

    oid: int
    name: str
    typmod: int = -1
    element: "ColumnType | None" = None
    delimiter: str = ","
    typtype: str = "b"
    has_binary_form: bool = True
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
    (6437, "oid8", 6442),
    (6490, "regdatabase", 6491),
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
    types = {oid: ColumnType(oid, name, has_binary_form=oid not in _WITHOUT_SEND) for oid, name, _ in _BASE}
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
    element_oid = _ELEMENTS.get(oid)
    if element_oid is None:
        return None
    name, delimiter = f"_{_SCALARS[element_oid].name}", ";" if element_oid == oids.BOX else ","
    return ColumnType(oid, name, typmod, builtin_type(element_oid, typmod), delimiter)


@dataclass(frozen=True, slots=True)
class CatalogType:
    """A row of pg_type. `base`, `element` and `made_of` are OIDs, 0 or None where there is none.

    `base` with its type modifier is what a domain is of, and `dimensions` those that it was declared with;
    `made_of` a range's subtype or a multirange's range; `delimiter` that of an array's element type.
    """

    oid: int
    name: str
    typtype: str
    base: int
    base_typmod: int
    dimensions: int
    element: int
    category: str
    delimiter: str
    made_of: int | None
    has_binary_form: bool

    def parts(self) -> list[int]:
        """The OIDs of the types that it consists of."""
        return [oid for oid in (self.base, self.element, self.made_of) if oid]


def resolve_type(oid: int, typmod: int, known: Mapping[int, CatalogType]) -> ColumnType:
    """The type of that OID, a domain as its base type. `known` has it and all parts that are not built in."""
    built_in = builtin_type(oid, typmod)
    if built_in is not None:
        return built_in
    if oid not in known:
        return ColumnType(oid, "unknown", typmod)
    row = known[oid]
    if row.typtype == "d":
        base = resolve_type(row.base, row.base_typmod, known)
        return replace(base, dimensions=row.dimensions) if row.dimensions > 1 else base
    if row.category == "A" and row.element:
        return _array(row, typmod, known)
    made_of = resolve_type(row.made_of, -1, known) if row.made_of else None
    return ColumnType(
        oid, row.name, typmod, made_of, typtype=row.typtype, has_binary_form=row.has_binary_form
    )


def _array(row: CatalogType, typmod: int, known: Mapping[int, CatalogType]) -> ColumnType:
    name, element = row.name, resolve_type(row.element, typmod, known)
    element_row = known.get(row.element)
    if element_row is not None and element_row.typtype == "d" and not element.is_array:
        # Of a domain: as an array of its base type, with the modifier that only the domain has.
        name, typmod = f"_{element.name}", element.typmod
    return ColumnType(row.oid, name, typmod, element, row.delimiter)
