"""Every service of the compose file except Grafana on embedded servers: command, variables, files, ports.

All tests share the servers, both relays, and a workload that has been relayed before they begin.
"""

import json
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from confluent_kafka.admin import AdminClient

from pgrelay.embedded.jars import Unavailable
from pgrelay.embedded.kafka import Kafka
from pgrelay.embedded.ports import free_port
from pgrelay.embedded.postgres import Postgres
from pgrelay.embedded.registry import SchemaRegistry
from tests.debian import debian_program
from tests.deploy.shop import Shop
from tests.integration.avro import Reader
from tests.integration.topics import read_topic
from tests.integration.waiting import wait_until
from tests.unavailable import skip

# One worker runs them all, on the same servers.
pytestmark = pytest.mark.xdist_group("compose")

RELAYS = ["pgrelay", "pgrelay-avro"]


@dataclass(frozen=True, slots=True)
class Running:
    shop: Shop
    postgres: Postgres
    kafka: Kafka
    registry: SchemaRegistry

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.postgres.dsn_of("shop")) as connection:
            return connection.execute(statement.encode()).fetchall()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with ExitStack() as stack:
        shop = Shop(stack, tmp_path_factory.mktemp("compose"))
        try:
            running = Running(shop, shop.postgres(), shop.kafka(), shop.registry())
        except Unavailable as error:
            skip(error)
        for service in RELAYS:
            shop.relay(service)
        _work(running)
        yield running


def _work(running: Running) -> None:
    """Run some transactions of the workload, and wait until both relays have delivered them."""
    active = "SELECT count(*) FROM pg_replication_slots WHERE active"
    wait_until(lambda: running.query(active) == [(len(RELAYS),)], "both relays to stream")
    name, *options = running.shop.compose.command("workload")
    [script] = [option for option in options if option.startswith("--file=")]
    file = running.shop.compose.mounts("workload")[script.removeprefix("--file=")]
    options[options.index(script)] = f"--file={file}"
    [duration] = [option for option in options if option.startswith("--time=")]
    options[options.index(duration)] = "--transactions=60"
    host, port = running.shop.addresses["postgres:5432"].split(":")
    done = running.shop.run("workload", [running.postgres.bin / name, *options], PGHOST=host, PGPORT=port)
    assert "number of failed transactions: 0" in done
    [(end,)] = running.query("SELECT pg_current_wal_lsn()::text")
    behind = f"SELECT slot_name FROM pg_replication_slots WHERE confirmed_flush_lsn < '{end}'"
    wait_until(lambda: not running.query(behind), "both slots to move past the workload", 60)


def test_postgres_passes_its_health_check(running: Running) -> None:
    kind, name, *options = running.shop.compose.services["postgres"]["healthcheck"]["test"]
    assert kind == "CMD"
    port = str(running.postgres.port)
    told = running.shop.run("postgres", [running.postgres.bin / name, *options], PGPORT=port)
    assert "accepting connections" in told


def test_postgres_has_the_settings_of_the_command(running: Running) -> None:
    command = running.shop.compose.command("postgres")
    for name, value in (setting.split("=") for setting in command if "=" in setting):
        assert running.query(f"SHOW {name}") == [(value,)]
    assert "wal_level=logical" in command


def test_the_relays_read_their_slots_with_a_role_of_few_rights(running: Running) -> None:
    assert running.query("SELECT rolsuper, rolreplication FROM pg_roles WHERE rolname = 'pgrelay'") == [
        (False, True)
    ]
    assert running.query(
        "SELECT slot_name::text, usename::text FROM pg_replication_slots JOIN pg_stat_replication"
        " ON pid = active_pid ORDER BY slot_name"
    ) == [("pgrelay", "pgrelay"), ("pgrelay_avro", "pgrelay")]


def test_kafka_answers_on_the_port_for_the_host(running: Running) -> None:
    client = AdminClient({"bootstrap.servers": running.shop.addresses["localhost:9094"]})
    metadata = client.list_topics(timeout=60)
    [broker] = metadata.brokers.values()
    assert f"127.0.0.1:{broker.port}" == running.shop.addresses["localhost:9094"]
    assert {"shop.public.orders", "shop_avro.public.orders"} <= set(metadata.topics)
    assert len(metadata.topics["shop.public.orders"].partitions) == 3


def test_the_records_add_up_to_the_tables(running: Running) -> None:
    for table in ("customers", "orders"):
        rows: dict[int, Any] = {}
        for record in read_topic(running.kafka.bootstrap, f"shop.public.{table}"):
            rows[record.json_key["id"]] = record.json and record.json["after"]
        expected = running.query(f"SELECT to_jsonb(t)->>'id' FROM {table} AS t ORDER BY id")
        assert sorted(key for key, row in rows.items() if row) == [int(id) for (id,) in expected]


def test_avro_is_registered_and_adds_up_to_the_same(running: Running) -> None:
    reader = Reader(running.registry)
    amounts: dict[int, Decimal | None] = {}
    for record in read_topic(running.kafka.bootstrap, "shop_avro.public.orders"):
        value = reader.read(record.value)
        amounts[reader.read(record.key)["id"]] = value and value["after"] and value["after"]["amount"]
    expected = running.query("SELECT id, amount FROM orders")
    assert {key: amount for key, amount in amounts.items() if amount is not None} == dict(expected)


def test_the_registry_refuses_a_schema_that_is_not_backward_compatible(running: Running) -> None:
    subject = f"{running.registry.url}/compatibility/subjects/shop_avro.public.orders-key/versions/latest"
    fields = [{"name": name, "type": "long"} for name in ("id", "other")]
    schema = {"type": "record", "name": "Key", "namespace": "shop_avro.public.orders", "fields": fields}
    headers = {"Content-Type": "application/json"}
    body = json.dumps({"schema": json.dumps(schema)}).encode()
    with urllib.request.urlopen(urllib.request.Request(subject, body, headers), timeout=30) as answer:
        assert json.load(answer)["is_compatible"] is False


def test_prometheus_scrapes_both_relays_and_knows_the_alerts(running: Running) -> None:
    program = debian_program("prometheus", "prometheus", "usr/bin/prometheus")
    shop, port = running.shop, free_port()
    shop.addresses["prometheus:9090"] = shop.addresses["0.0.0.0:9090"] = f"127.0.0.1:{port}"
    for file in ("prometheus.yml", "alerts.yml"):
        copy = shop.moved_file("prometheus", f"/etc/prometheus/{file}")
    folders = {"=/etc/prometheus": f"={copy.parent}", "=/prometheus": f"={shop.folder / 'tsdb'}"}
    options = [shop.moved(option) for option in shop.compose.command("prometheus")]
    for inside, here in folders.items():
        options = [option.replace(inside, here) for option in options]
    url = f"http://127.0.0.1:{port}"
    shop.daemon("prometheus", [str(program.path), *options], f"{url}/-/ready", program.environment)

    def up() -> dict[str, str]:
        with urllib.request.urlopen(f"{url}/api/v1/query?query=up", timeout=60) as answer:
            series = json.load(answer)["data"]["result"]
        assert {each["metric"]["job"] for each in series} <= {"pgrelay"}
        return {each["metric"]["instance"]: each["value"][1] for each in series}

    relays = {shop.addresses[f"{service}:8080"]: "1" for service in RELAYS}
    wait_until(lambda: up() == relays, "both relays to be scraped", 60)
    with urllib.request.urlopen(f"{url}/api/v1/rules", timeout=60) as answer:
        [group] = json.load(answer)["data"]["groups"]
    assert group["name"] == "pgrelay"
    assert {rule["health"] for rule in group["rules"]} <= {"ok", "unknown"}


def test_spark_sums_up_what_is_in_postgres(running: Running) -> None:
    pytest.importorskip("pyspark")
    [inside] = running.shop.compose.command("spark")
    job = running.shop.compose.mounts("spark")[inside]
    lake = running.shop.folder / "lake"
    told = running.shop.run("spark", [sys.executable, job, "--once"], WAREHOUSE=str(lake))
    expected = running.query("SELECT status, count(*), sum(amount) FROM orders GROUP BY 1 ORDER BY 1")
    assert [tuple(line.split()) for line in told.splitlines()] == [
        tuple(str(value) for value in row) for row in expected
    ]
