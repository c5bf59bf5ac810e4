"""Which counts `make guard` accepts. The counting itself is tested by running it."""

import json
from pathlib import Path

import pytest
from bench.counted import WORK
from bench.guard import compare

ROOT = Path(__file__).parents[1]


def test_work_that_costs_over_a_tenth_more_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {"json insert": 1000, "json update": 1000, "avro insert": 1000}
    found = {"json insert": 1100, "json update": 1101, "avro insert": 500}
    assert compare(found, wanted) == ["json update"]
    assert capsys.readouterr().out.splitlines()[2].split() == ["json", "update", "1,000", "1,101", "1.101"]


def test_everything_counted_has_a_recorded_figure() -> None:
    figures = json.loads((ROOT / "bench" / "instructions.json").read_text())["instructions"]
    assert list(figures) == [f"{format} {shape}" for format, shape in WORK]
