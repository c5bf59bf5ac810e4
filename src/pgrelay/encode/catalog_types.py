"""Types that are not built in, as the catalogue tells them: what they come to, by what they are made of.

Source: PostgreSQL manual, "pg_type" and "pg_range".
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pgrelay.encode.types import ColumnType, builtin_type


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
    sends: bool

    def parts(self) -> list[int]:
        """The types that it is made of."""
        return [oid for oid in (self.base, self.element, self.made_of) if oid]


def resolved(oid: int, typmod: int, known: Mapping[int, CatalogType]) -> ColumnType:
    """The type of that OID, a domain as its base type. `known` has it and all parts that are not built in."""
    built_in = builtin_type(oid, typmod)
    if built_in is not None:
        return built_in
    if oid not in known:
        return ColumnType(oid, "unknown", typmod)
    row = known[oid]
    if row.typtype == "d":
        of = resolved(row.base, row.base_typmod, known)
        return replace(of, dimensions=row.dimensions) if row.dimensions > 1 else of
    if row.category == "A" and row.element:
        return _array(row, typmod, known)
    made_of = resolved(row.made_of, -1, known) if row.made_of else None
    return ColumnType(oid, row.name, typmod, made_of, typtype=row.typtype, sends=row.sends)


def _array(row: CatalogType, typmod: int, known: Mapping[int, CatalogType]) -> ColumnType:
    name, of = row.name, resolved(row.element, typmod, known)
    element = known.get(row.element)
    if element is not None and element.typtype == "d" and not of.is_array:
        # Of a domain: as an array of its base type, with the modifier that only the domain has.
        name, typmod = f"_{of.name}", of.typmod
    return ColumnType(row.oid, name, typmod, of, row.delimiter)
