"""The alert rules, checked by promtool, and the section of each in the runbook."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

from pgrelay.metrics import Metrics
from pgrelay.spark.mirrors.metrics import MirrorMetrics
from pgrelay.spark_mirror.run import metrics_registry
from pgrelay.status.exposition import Exposition
from tests.prometheus import promtool

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus/alerts.yml"
TESTS = sorted((ROOT / "deploy/prometheus").glob("*_test.yml"))
RUNBOOK = ROOT / "docs/operations.md"

ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
}


def asked(expression: str) -> set[str]:
    """The metrics that an expression uses, without Prometheus's own `up`."""
    return set(re.findall(r"\b(?:pgrelay|process)_\w+", expression))


def exposed_by_relays() -> set[str]:
    return names(Exposition(Metrics()).render())


def exposed_by_mirrors() -> set[str]:
    metrics = metrics_registry()
    MirrorMetrics(metrics)
    return names(generate_latest(metrics))


def names(page: bytes) -> set[str]:
    return set(re.findall(r"^# TYPE (\w+)", page.decode(), re.MULTILINE))


def section(heading: str) -> str:
    """The text below a third-level heading of the runbook, up to the next; empty without such a heading."""
    found = re.search(rf"^### {heading}\n(.*?)(?=^##|\Z)", RUNBOOK.read_text(), re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def test_promtool_accepts_the_rules() -> None:
    checked = promtool("check", "rules", RULES)
    assert checked.returncode == 0, checked.stdout
    assert f"{len(ALERTS)} rules found" in checked.stdout


def test_the_rules_fire_when_they_should_and_not_before() -> None:
    tested = promtool("test", "rules", *TESTS)
    assert tested.returncode == 0, tested.stdout


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_is_tested_to_fire(alert: str) -> None:
    tests = [test for file in TESTS for test in yaml.safe_load(file.read_text())["tests"]]
    cases = [case for test in tests for case in test["alert_rule_test"]]
    assert any(case["alertname"] == alert and case.get("exp_alerts") for case in cases)


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_links_to_its_section_in_the_runbook(alert: str) -> None:
    assert ALERTS[alert]["annotations"]["runbook"] == f"docs/operations.md#{alert.lower()}"
    text = section(alert)
    for part in ("means", "look", "mend"):
        assert re.search(rf"^\*\*.*\b{part}\b.*\*\*", text, re.MULTILINE | re.IGNORECASE), part


def test_every_section_of_the_runbook_has_its_alert() -> None:
    assert set(re.findall(r"^### (Pgrelay\w+)$", RUNBOOK.read_text(), re.MULTILINE)) == set(ALERTS)


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_uses_existing_metrics(alert: str) -> None:
    for part in re.split(r"\bor\b", ALERTS[alert]["expr"]):
        assert asked(part) <= (exposed_by_mirrors() if "mirror" in part else exposed_by_relays())


def test_promtool_accepts_what_the_relay_exposes() -> None:
    metrics = Metrics()
    metrics.set_labels(version="1", slot="s", prefix="p")
    metrics.add_records("public.orders", "c", 1)
    checked = promtool("check", "metrics", stdin=Exposition(metrics).render())
    assert (checked.returncode, checked.stdout) == (0, "")


def test_the_documented_command_makes_a_rule_of_the_prometheus_operator() -> None:
    deploying = (ROOT / "docs/deploy.md").read_text()
    [command] = re.findall(
        r"^(\{ printf .*?; \}) \| kubectl apply --filename -$", deploying, re.MULTILINE | re.DOTALL
    )
    made = yaml.safe_load(
        subprocess.run(["bash", "-c", command], cwd=ROOT, check=True, capture_output=True).stdout
    )
    assert made["kind"] == "PrometheusRule"
    assert made["spec"] == yaml.safe_load(RULES.read_text())
