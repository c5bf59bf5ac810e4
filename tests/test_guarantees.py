"""docs/guarantees.md names a test for each fault, and each named test exists."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
GUARANTEES = (TESTS.parent / "docs" / "guarantees.md").read_text()
FAULTS = range(1, 43)

_ROW = re.compile(r"^\| (\d+) \| [^|\n]+ \| [^|\n]+ \|$", re.MULTILINE)
_ITEM = re.compile(r"^(\d+)\. (.+(?:\n {3,}.+)*)$", re.MULTILINE)
_NAMED = re.compile(r"`(?:tests/)?([\w/]+\.py)(?:::(\w+))?`")


def test_every_fault_has_a_row_and_names_a_test() -> None:
    table, _, tests = GUARANTEES.partition("\n### The tests of each fault\n")
    assert [int(number) for number in _ROW.findall(table)] == list(FAULTS)
    items = _ITEM.findall(tests)
    assert [int(number) for number, _ in items] == list(FAULTS)
    without = [number for number, named in items if not any(name for _, name in _NAMED.findall(named))]
    assert without == []


def test_every_named_test_exists() -> None:
    missing = []
    for file, name in set(_NAMED.findall(GUARANTEES)):
        path = TESTS / file
        text = path.read_text() if path.exists() else ""
        if not text or (name and not re.search(rf"^(async )?def {name}\(", text, re.MULTILINE)):
            missing.append(f"{file}::{name}")
    assert missing == []
