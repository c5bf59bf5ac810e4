"""The pages list every metric and call, and quote lines that the mirror has."""

import ast
import re
from functools import cache

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from pgrelay import spark
from pgrelay.metrics import Metrics
from pgrelay.spark.mirrors.metrics import MirrorMetrics
from pgrelay.status.exposition import Exposition
from tests.docs.pages import ROOT, pages


def names(text: bytes) -> list[str]:
    """Without the _created metrics that Prometheus's client adds."""
    found = re.findall(r"^# TYPE (pgrelay_\w+)", text.decode(), re.MULTILINE)
    return [name for name in found if not name.endswith("_created")]


def of_mirrors() -> bytes:
    registry = CollectorRegistry()
    MirrorMetrics(registry)
    return generate_latest(registry)


def rows(page: str) -> str:
    """The lines of a page's tables."""
    return "\n".join(line for line in pages()[page].splitlines() if line.startswith("|"))


@pytest.mark.parametrize("metric", names(Exposition(Metrics()).render()))
def test_every_metric_of_the_relay_has_a_line(metric: str) -> None:
    assert re.search(rf"`{metric}\b", rows("docs/operations.md"))


@pytest.mark.parametrize("metric", names(of_mirrors()))
def test_every_metric_of_mirrors_has_a_line(metric: str) -> None:
    assert re.search(rf"`{metric}\b", rows("docs/spark-operations.md"))


@pytest.mark.parametrize("call", spark.__all__)
def test_every_call_of_the_spark_package_has_a_line(call: str) -> None:
    assert re.search(rf"`{call}\b", rows("docs/spark.md"))


def quoted_refusals() -> list[str]:
    """What the lines of mirrors contain that refuse to start, in the table of their cures."""
    [table] = re.findall(
        r"^\| the line contains \|.*\n\|---.*\n((?:\|.*\n)+)", pages()["docs/spark-operations.md"], re.M
    )
    first_cells = [row.split(" | ")[0] for row in table.splitlines()]
    return [text for cell in first_cells for text in re.findall(r"`([^`]+)`", cell)]


@cache
def texts() -> list[str]:
    """The texts in the source of `pgrelay.spark`; what a text is formatted with is left out."""
    found = []
    for path in (ROOT / "src/pgrelay/spark").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            constants = [part.value if isinstance(part, ast.Constant) else "" for part in parts]
            found.append("".join(text for text in constants if isinstance(text, str)))
    return found


@pytest.mark.parametrize("quoted", quoted_refusals())
def test_every_refusal_that_is_quoted_is_one_of_ours(quoted: str) -> None:
    pattern = ".*".join(map(re.escape, quoted.split("…")))
    assert any(re.search(pattern, text) for text in texts())
