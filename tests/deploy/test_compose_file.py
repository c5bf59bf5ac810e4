"""The compose file by itself: its schema, and whether its parts fit together. test_compose_run.py runs it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pgrelay.embedded.kafka_jars import KAFKA_VERSION
from pgrelay.embedded.registry import VERSION as REGISTRY_VERSION
from tests.deploy.compose import FILE, ROOT, Compose

COMPOSE = Compose()

# Where each service listens. test_compose_run.py starts our own on other ports and replaces these.
LISTENS = {
    "postgres": {5432},
    "kafka": {9092, 9093, 9094},
    "registry": {8080},
    "pgrelay": {8080},
    "pgrelay-avro": {8080},
    "prometheus": {9090},
    "grafana": {3000},
}


def test_the_schema_of_compose_files_accepts_the_file() -> None:
    checker = Path(sys.executable).with_name("check-jsonschema")
    command: list[str | Path] = [checker, "--builtin-schema", "vendor.compose-spec", FILE]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("service", COMPOSE.services)
def test_mounted_files_exist(service: str) -> None:
    for path in COMPOSE.mounts(service).values():
        assert path.exists()


@pytest.mark.parametrize("service", COMPOSE.services)
def test_dockerfiles_to_build_exist(service: str) -> None:
    build = COMPOSE.services[service].get("build")
    if build is not None:
        context = (FILE.parent / build["context"]).resolve()
        assert context == ROOT
        assert (context / build.get("dockerfile", "Dockerfile")).exists()


@pytest.mark.parametrize("service", COMPOSE.services)
def test_published_ports_are_listened_on_and_bound_to_127_0_0_1(service: str) -> None:
    assert set(COMPOSE.published(service)) <= LISTENS.get(service, set())
    for ports in COMPOSE.services[service].get("ports", []):
        assert ports.startswith("127.0.0.1:")


def test_no_port_of_the_host_is_used_twice() -> None:
    ports = [ports for service in COMPOSE.services.values() for ports in service.get("ports", [])]
    hosts = [ports.rpartition(":")[0] for ports in ports]
    assert len(set(hosts)) == len(hosts)


def test_every_address_names_a_service_and_a_port_it_listens_on() -> None:
    names = "|".join(COMPOSE.services)
    found: set[tuple[str, int]] = set()
    for file in (FILE, *(path for service in COMPOSE.services for path in _files(service))):
        text = re.sub(r"^\s*image:.*$", "", file.read_text(), flags=re.MULTILINE)
        found |= {(name, int(port)) for name, port in re.findall(rf"\b({names}):(\d+)\b", text)}
    assert {name for name, _ in found} >= {"postgres", "kafka", "registry", "pgrelay", "prometheus"}
    assert {(name, port) for name, port in found if port not in LISTENS[name]} == set()


def test_services_wait_only_for_those_with_a_health_check() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    for service in COMPOSE.services.values():
        for other, wait in service.get("depends_on", {}).items():
            healthcheck = COMPOSE.services[other].get("healthcheck")
            assert wait == {"condition": "service_healthy"}
            assert healthcheck or (COMPOSE.services[other]["image"] == "pgrelay:local")
    assert "\nHEALTHCHECK " in dockerfile


def test_kafka_and_registry_have_the_versions_that_tests_use() -> None:
    assert COMPOSE.services["kafka"]["image"].endswith(f":{KAFKA_VERSION}")
    assert COMPOSE.services["registry"]["image"].endswith(f":{REGISTRY_VERSION}")


def test_grafana_finds_its_dashboard_and_prometheus() -> None:
    mounts = COMPOSE.mounts("grafana")
    provisioning = mounts["/etc/grafana/provisioning"]
    [provider] = yaml.safe_load((provisioning / "dashboards/pgrelay.yml").read_text())["providers"]
    assert provider["options"]["path"] in mounts
    home = COMPOSE.environment("grafana")["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    folder, _, name = home.rpartition("/")
    assert (mounts[folder] / name).exists()
    [source] = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text())["datasources"]
    assert source["isDefault"] is True
    assert source["type"] == "prometheus"
    scraped = yaml.safe_load(COMPOSE.mounts("prometheus")["/etc/prometheus/prometheus.yml"].read_text())
    assert source["jsonData"]["timeInterval"] == scraped["global"]["scrape_interval"]


def _files(service: str) -> list[Path]:
    """The text files mounted into a service, also those in folders."""
    found: list[Path] = []
    for path in COMPOSE.mounts(service).values():
        found += [path] if path.is_file() else [each for each in path.rglob("*.y*ml") if each.is_file()]
    return found
