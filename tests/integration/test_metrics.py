"""The relay's metrics, as seen by a real Prometheus, its alert rules and the dashboard's queries."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.relays import Relay
from tests.integration.waiting import wait_until
from tests.prometheus import Prometheus, promtool

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus/alerts.yml"
DASHBOARD = json.loads((ROOT / "deploy/grafana/dashboards/pgrelay.json").read_text())

# The counter has no series before the first dead letter, and a slot without a limit has no budget.
MAY_BE_EMPTY = {"pgrelay_dead_letters_total"}


def queries() -> dict[str, str]:
    """Every query of the dashboard by panel and letter, with its variables filled in as Grafana does."""
    found = {}
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$instance", ".*").replace("$__rate_interval", "1m")
            found[f"{panel['title']} {target['refId']}"] = expression
    return found


@pytest.fixture
def relay(new_relay: NewRelay) -> Relay:
    return new_relay().start().wait_streaming()


@pytest.fixture
def prometheus(relay: Relay, database: Database) -> Iterator[Prometheus]:
    """A Prometheus that has scraped the relay before and after it relayed some rows."""
    with Prometheus(relay.http_address, RULES) as prometheus:
        wait_until(lambda: prometheus.query("up == 1"), "a first scrape")
        database.execute("CREATE TABLE t (id int PRIMARY KEY)")
        for first in range(0, 100, 25):
            database.execute(f"INSERT INTO t SELECT generate_series({first}, {first + 24})")
            before = count_scrapes(prometheus)
            wait_until(lambda: count_scrapes(prometheus) > before, "the next scrape")  # noqa: B023
        relay.caught_up()
        wait_until(lambda: prometheus.query("sum(pgrelay_records_total) == 100"), "a scrape with all rows")
        yield prometheus


def count_scrapes(prometheus: Prometheus) -> float:
    return float(prometheus.query("sum(count_over_time(up[10m]))")[0]["value"][1])


def test_promtool_accepts_the_metrics(relay: Relay) -> None:
    checked = promtool("check", "metrics", stdin=relay.get("/metrics")[1].encode())
    assert (checked.returncode, checked.stdout) == (0, "")


def test_every_query_of_the_dashboard_has_a_result(prometheus: Prometheus) -> None:
    empty = {panel for panel, query in queries().items() if not prometheus.query(query)}
    assert empty == {panel for panel, query in queries().items() if query_of(query) & MAY_BE_EMPTY} - {
        # It shows 0 if there are none.
        "Dead letters, last hour A"
    }


def query_of(expression: str) -> set[str]:
    return set(re.findall(r"pgrelay_\w+", expression))


def test_the_dashboards_variable_lists_the_relays(prometheus: Prometheus, relay: Relay) -> None:
    [variable] = [one for one in DASHBOARD["templating"]["list"] if one["name"] == "instance"]
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()  # type: ignore[union-attr]
    assert {series["metric"][label] for series in prometheus.query(metric)} == {relay.http_address}


def test_alerts_distinguish_relays_by_slot_and_prefix(prometheus: Prometheus, relay: Relay) -> None:
    [rule] = [rule for rule in prometheus.rules() if rule["name"] == "PgrelaySlotInactive"]
    [streaming] = prometheus.query(rule["query"].removesuffix(" == 0"))
    # In these tests a relay's slot and prefix have the same name.
    assert streaming["metric"] == {"job": "pgrelay", "slot": relay.prefix, "prefix": relay.prefix}
    assert streaming["value"][1] == "1"


def test_the_dashboards_rates_are_right(prometheus: Prometheus) -> None:
    [records] = prometheus.query("sum(increase(pgrelay_records_total[10m]))")
    assert float(records["value"][1]) > 0
    [median] = prometheus.query(queries()["From commit to acknowledgement A"])
    assert 0 < float(median["value"][1]) < 10


def test_the_alert_rules_are_evaluated_and_quiet(prometheus: Prometheus) -> None:
    def evaluated() -> list[str]:
        rules = prometheus.rules()
        assert {rule["health"] for rule in rules} <= {"ok", "unknown"}, rules
        return [rule["name"] for rule in rules if rule["health"] == "ok"]

    wait_until(lambda: len(evaluated()) == len(prometheus.rules()) > 0, "every rule to be evaluated")
    # One scrape may be late, so wait until no alert lasts.
    wait_until(lambda: all(rule["state"] == "inactive" for rule in prometheus.rules()), "no alert to be left")


@pytest.mark.parametrize("version", ["16", "18"], indirect=True)
def test_the_metrics_show_the_slots_budget(relay: Relay, database: Database) -> None:
    relay.wait_for(
        lambda: relay.metric("pgrelay_slot_safe_wal_bytes") == float("inf"), "the metric without a limit"
    )
    with database.connect() as connection:
        connection.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '64MB'")
        connection.execute("SELECT pg_reload_conf()")
        try:
            relay.wait_for(
                lambda: 0 < relay.metric("pgrelay_slot_safe_wal_bytes") < 2 * 64 * 2**20,
                "the metric with the limit",
            )
        finally:
            connection.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
            connection.execute("SELECT pg_reload_conf()")
