"""The pages list every metric and call."""

import re

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from pgrelay import spark
from pgrelay.metrics import Metrics
from pgrelay.spark.mirrors.metrics import MirrorMetrics
from pgrelay.status.exposition import Exposition
from tests.docs.pages import pages


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
