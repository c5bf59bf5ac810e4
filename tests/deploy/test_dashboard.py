"""What the dashboard's queries make of relays that wait, computed by promtool.

tests/integration/test_metrics.py runs every query on a relay that streams.
"""

import json
from math import nan
from pathlib import Path

import pytest
import yaml

from tests.deploy.compose import ROOT
from tests.prometheus import promtool

PANELS = json.loads((ROOT / "deploy/grafana/dashboards/pgrelay.json").read_text())["panels"]
LSNS = ("server", "received", "acknowledged", "confirmed")

# A relay by instance: its slot, whether it streams, and its LSNs in the order of `LSNS`.
Relay = tuple[str, int, tuple[float, ...]]
# Of a relay that has waited since its start: what the server says of the slot, and nothing of a stream.
WAITING = (100, nan, nan, 50)


def queries(title: str) -> list[str]:
    """The queries of a panel, for all relays."""
    [panel] = [panel for panel in PANELS if panel["title"] == title]
    return [target["expr"].replace("$instance", ".*") for target in panel["targets"]]


def series(relays: dict[str, Relay]) -> list[dict[str, str]]:
    found = []
    for instance, (slot, streaming, lsns) in relays.items():
        labels = f'job="pgrelay", instance="{instance}"'
        found.append((f'pgrelay_info{{{labels}, slot="{slot}", prefix="p", version="1"}}', 1.0))
        found.append((f"pgrelay_streaming{{{labels}}}", float(streaming)))
        found += [(f"pgrelay_{name}_lsn{{{labels}}}", lsn) for name, lsn in zip(LSNS, lsns, strict=True)]
    return [{"series": name, "values": str(value).replace("nan", "NaN")} for name, value in found]


def assert_shown(title: str, relays: dict[str, Relay], expected: list[list[float]], folder: Path) -> None:
    """Assert the values of each query of a panel; none means that it shows nothing."""
    cases = [
        {
            "expr": query,
            "eval_time": "0m",
            "exp_samples": [{"labels": "{}", "value": value} for value in values],
        }
        for query, values in zip(queries(title), expected, strict=True)
    ]
    file = folder / "test.yml"
    file.write_text(yaml.safe_dump({"tests": [{"input_series": series(relays), "promql_expr_test": cases}]}))
    tested = promtool("test", "rules", file)
    assert tested.returncode == 0, tested.stdout


@pytest.mark.parametrize(
    ("relays", "expected"),
    [
        ({"a": ("s", 1, (4, 3, 2, 1))}, 1),
        ({"a": ("s", 1, (4, 3, 2, 1)), "spare": ("s", 0, WAITING)}, 1),
        ({"a": ("s", 0, WAITING), "spare": ("s", 0, WAITING)}, 0),
        ({"a": ("s", 1, (4, 3, 2, 1)), "b": ("other", 0, WAITING)}, 0),
    ],
    ids=["one", "with a hot spare", "both wait", "another slot waits"],
)
def test_a_slot_streams_if_one_of_its_relays_does(
    relays: dict[str, Relay], expected: float, tmp_path: Path
) -> None:
    assert_shown("Streaming", relays, [[expected]], tmp_path)


@pytest.mark.parametrize(
    ("relays", "expected"),
    [
        ({"a": ("s", 1, (100, 70, 60, 55))}, [[30], [10], [5]]),
        ({"a": ("s", 1, (100, 70, 60, 55)), "spare": ("s", 0, WAITING)}, [[30], [10], [5]]),
        ({"a": ("s", 1, (100, 70, 60, 55)), "b": ("t", 1, (9, 8, 7, 5))}, [[31], [11], [7]]),
        # What the server last reported may be behind what it has sent since.
        ({"a": ("s", 1, (60, 70, 60, 55))}, [[0], [10], [5]]),
        ({"a": ("s", 0, WAITING)}, [[], [], []]),
    ],
    ids=["one", "with a hot spare", "two slots", "an old report", "nothing is known"],
)
def test_bytes_on_their_way_are_of_the_relays_that_know_them(
    relays: dict[str, Relay], expected: list[list[float]], tmp_path: Path
) -> None:
    assert_shown("WAL between the stages", relays, expected, tmp_path)
