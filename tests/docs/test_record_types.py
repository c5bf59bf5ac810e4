"""The table of types in docs/records.md against the encodings."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import pytest

from pgrelay.encode.encodings import Encodings
from pgrelay.encode.types import ColumnType, builtin_type
from pgrelay.encode.values.json_value import QUOTED, TEXT
from pgrelay.encode.values.text import text_encoding
from tests.docs.pages import pages
from tests.encode.json_values import numeric_typmod

_CODE: Final = re.compile(r"`([^`]*)`")
_SETTING: Final = re.compile(r"(numeric|time|binary|json): (\w+)")

# SQL's names of types that have other names in the catalogue.
_NAMES: Final = {
    "smallint": "int2",
    "integer": "int4",
    "bigint": "int8",
    "real": "float4",
    "double precision": "float8",
    "boolean": "bool",
    "char(n)": "bpchar",
    '"char"': "char",
}
_BUILT_IN: Final = {of.name: of for of in map(builtin_type, range(10_000)) if of is not None}
_OTHERS: Final = {
    "numeric(8,2)": ColumnType(1700, "numeric", numeric_typmod(8, 2)),
    "citext": ColumnType(70_000, "citext"),
    "hstore": ColumnType(70_001, "hstore"),
}
_SETTINGS: Final[list[tuple[Any, ...]]] = [
    *product(("string", "double", "precise"), ("iso", "debezium"), ("base64", "hex"), ("string", "inline"))
]
_CHOICES: Final = [Encodings(*each) for each in _SETTINGS]


@dataclass(frozen=True)
class Line:
    """A type's line. `encoding` is empty if the table leaves it to the lines above."""

    of: ColumnType
    choices: Encodings
    printed: str
    json: str
    encoding: str

    def __str__(self) -> str:
        return f"{self.of.name}, {self.printed}, {self.encoding}"


def lines() -> Iterator[Line]:
    section = pages()["docs/records.md"].partition("\n## Types\n")[2].partition("\n## ")[0]
    kinds = setting = ""
    for row in re.findall(r"^\| (.*) \|$", section, re.MULTILINE)[1:]:
        kind, chosen, printed, json, encoding = re.split(r" ?\| ?", row)
        if kind:
            kinds, setting = kind, ""
        setting = chosen or setting
        choices = Encodings(**dict(_SETTING.findall(setting)))
        for name in _CODE.findall(kinds):
            of = _type(name, kinds.startswith("arrays"))
            yield Line(of, choices, _first(printed), _first(json), _first(encoding))


def _type(name: str, array: bool) -> ColumnType:
    name = _NAMES.get(name, name)
    return _OTHERS.get(name) or _BUILT_IN[f"_{name}" if array else name]


def _first(cell: str) -> str:
    return next(iter(_CODE.findall(cell)), "")


LINES: Final = list(lines())


@pytest.mark.parametrize("line", LINES, ids=str)
def test_each_type_is_written_as_its_line_says(line: Line) -> None:
    encoding = text_encoding(line.of, line.choices)
    assert line.encoding in ("", encoding.name)
    assert encoding.encode(line.printed.encode()).decode() == line.json


def test_a_type_without_a_line_is_postgress_text_under_every_setting() -> None:
    told = {line.of.oid for line in LINES}
    others = [of for of in _BUILT_IN.values() if of.oid not in told and not of.is_array]
    assert len(others) > 30
    for of, choices in product(others, _CHOICES):
        encoding = text_encoding(of, choices)
        assert (encoding.kind in (QUOTED, TEXT), encoding.name) == (True, "string"), of.name


def test_a_type_whose_line_names_no_setting_is_the_same_under_every_one() -> None:
    settled = {line.of for line in LINES} - {line.of for line in LINES if line.choices != Encodings()}
    assert len(settled) > 20
    for of in settled:
        assert len({text_encoding(of, choices).name for choices in _CHOICES}) == 1, of.name
