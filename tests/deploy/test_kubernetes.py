"""The manifests by themselves: Kubernetes's schemas, and whether they fit each other, image and relay.

deploy/kubernetes/check checks kustomize's output; test_kubernetes_run.py runs the configuration.
"""

import re
from typing import Any

import kubernetes_validate
import pytest
import yaml

from pgrelay import config
from pgrelay.arguments import parser
from tests.deploy.compose import ROOT
from tests.deploy.manifests import (
    BASE,
    FOLDER,
    MONITORED,
    container,
    durable,
    kustomization,
    manifest,
    manifests,
    merged,
    pod,
    secret,
)

OURS = manifests(BASE)
LABELS = {"app.kubernetes.io/name": "pgrelay"}
DOCKERFILE = (ROOT / "Dockerfile").read_text()
DEPLOY = (ROOT / "docs/deploy.md").read_text()


@pytest.fixture
def relay_config(monkeypatch: pytest.MonkeyPatch) -> config.Config:
    """The ConfigMap's configuration as the pod reads it."""
    for name, value in secret().items():
        monkeypatch.setenv(name, value)
    return config.load(BASE / "relay.yaml")


@pytest.mark.parametrize("version", ["1.30", "1.37"])
@pytest.mark.parametrize("document", OURS, ids=lambda document: document["kind"])
def test_the_schemas_of_kubernetes_accept_every_manifest(document: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


def test_custom_resources_are_in_a_separate_component() -> None:
    """Otherwise kubectl apply would fail on a cluster without the operator."""
    [document] = manifests(MONITORED)
    assert document["apiVersion"].startswith("monitoring.coreos.com/")
    assert kustomization(MONITORED)["kind"] == "Component"


def test_the_schemas_of_kubernetes_accept_the_secret() -> None:
    document = yaml.safe_load((FOLDER / "secret.example.yaml").read_text())
    kubernetes_validate.validate(document, "1.37", strict=True)


def test_every_file_of_the_base_is_used() -> None:
    listed = {*kustomization()["resources"], "kustomization.yaml"}
    [generated] = kustomization()["configMapGenerator"]
    assert {path.name for path in BASE.iterdir()} == listed | set(generated["files"])
    assert generated["name"] == "pgrelay"


def test_every_selector_finds_the_pod_or_the_service() -> None:
    assert manifest("StatefulSet")["spec"]["template"]["metadata"]["labels"] == LABELS
    assert manifest("Service")["metadata"]["labels"] == LABELS
    assert manifest("Service")["spec"]["selector"] == LABELS
    for kind, key in [
        ("StatefulSet", "selector"),
        ("PodDisruptionBudget", "selector"),
        ("NetworkPolicy", "podSelector"),
        ("ServiceMonitor", "selector"),
    ]:
        assert manifest(kind)["spec"][key] == {"matchLabels": LABELS}


def test_the_jobs_name_is_that_of_the_alerts() -> None:
    assert LABELS[manifest("ServiceMonitor")["spec"]["jobLabel"]] == "pgrelay"


def test_there_is_one_replica_and_the_budget_allows_its_eviction() -> None:
    assert manifest("StatefulSet")["spec"]["replicas"] == 1
    budget = manifest("PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    # Else a pod that is not ready, as while the relay waits, can't be evicted.
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_a_pod_that_is_never_ready_can_be_replaced() -> None:
    """With OrderedReady a rollout would wait for the pod that it should replace."""
    assert manifest("StatefulSet")["spec"]["podManagementPolicy"] == "Parallel"


def test_the_port_is_the_images_and_used_everywhere() -> None:
    [port] = container()["ports"]
    assert f"\nEXPOSE {port['containerPort']}\n" in DOCKERFILE
    [exposed] = manifest("Service")["spec"]["ports"]
    assert (exposed["targetPort"], exposed["port"]) == (port["name"], port["containerPort"])
    assert container()["livenessProbe"]["httpGet"]["port"] == port["name"]
    assert container()["readinessProbe"]["httpGet"]["port"] == port["name"]
    [endpoint] = manifest("ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["port"] == exposed["name"]
    [ingress] = manifest("NetworkPolicy")["spec"]["ingress"]
    assert ingress["ports"] == [{"port": port["containerPort"]}]


def test_the_documented_address_for_ipv6_is_on_that_port(monkeypatch: pytest.MonkeyPatch) -> None:
    [listen] = re.findall(r'`PGRELAY_HTTP__LISTEN: "(.*)"`', DEPLOY)
    monkeypatch.setenv("PGRELAY_HTTP__LISTEN", listen)
    assert config.load(BASE / "relay.yaml").http.address == ("::", container()["ports"][0]["containerPort"])


def test_the_user_is_the_images() -> None:
    context = pod()["securityContext"]
    assert f"\nUSER {context['runAsUser']}:{context['runAsGroup']}\n" in DOCKERFILE
    assert context["fsGroup"] == context["runAsGroup"]


def test_the_mounts_are_at_the_images_paths() -> None:
    mounts = {mount["name"]: mount["mountPath"] for mount in container()["volumeMounts"]}
    assert f"\nVOLUME {mounts['spool']}\n" in DOCKERFILE
    [file] = kustomization()["configMapGenerator"][0]["files"]
    assert f'"{mounts["config"]}/{file}"' in DOCKERFILE
    assert {volume["name"] for volume in pod()["volumes"]} == set(mounts)


def test_the_pods_grace_period_exceeds_the_relays_shutdown_grace(relay_config: config.Config) -> None:
    assert pod()["terminationGracePeriodSeconds"] >= relay_config.sink.shutdown_grace_s + 5


def test_the_spool_fits_into_the_pods_storage_limit() -> None:
    [spool] = [volume for volume in pod()["volumes"] if volume["name"] == "spool"]
    limit = container()["resources"]["limits"]["ephemeral-storage"]
    assert _gibibytes(spool["emptyDir"]["sizeLimit"]) < _gibibytes(limit)


def test_the_network_policy_allows_the_configured_servers(relay_config: config.Config) -> None:
    allowed = {
        port["port"] for egress in manifest("NetworkPolicy")["spec"]["egress"] for port in egress["ports"]
    }
    servers = f"{relay_config.source.dsn} {relay_config.sink.kafka['bootstrap.servers']}"
    assert {int(port) for port in re.findall(r":(\d+)\b", servers)} <= allowed
    registries = re.findall(r"https?://[\w-]+:(\d+)", (ROOT / "docs/avro.md").read_text())
    assert {int(port) for port in registries} == {8081, 8080} <= allowed


def test_secrets_come_only_from_the_environment() -> None:
    [source] = container()["envFrom"]
    example = yaml.safe_load((FOLDER / "secret.example.yaml").read_text())
    assert source == {"secretRef": {"name": example["metadata"]["name"]}}
    text = (BASE / "relay.yaml").read_text()
    assert {*re.findall(r"\$\{(\w+)\}", text), "PGPASSWORD"} == set(secret())
    for value in secret().values():
        assert value not in text


def test_the_durable_spool_replaces_the_pods_own() -> None:
    variant = kustomization(FOLDER / "durable-spool")
    assert variant["resources"] == ["../base"]
    [patch] = [yaml.safe_load(patch["patch"]) for patch in variant["patches"]]
    assert (patch["kind"], patch["metadata"]["name"]) == ("StatefulSet", "pgrelay")
    assert patch["spec"]["template"]["spec"]["volumes"] == [{"name": "spool", "$patch": "delete"}]
    [claim] = patch["spec"]["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "spool"
    kubernetes_validate.validate(claim, "1.37", strict=True)
    kubernetes_validate.validate(durable(), "1.37", strict=True)
    assert [volume["name"] for volume in durable()["spec"]["template"]["spec"]["volumes"]] == ["config"]


@pytest.mark.parametrize("relays", [manifest("StatefulSet"), durable()], ids=["base", "durable-spool"])
def test_a_held_pod_has_all_of_the_relays_but_the_relay(relays: dict[str, Any]) -> None:
    held = merged(relays, yaml.safe_load((FOLDER / "hold.yaml").read_text()))
    kubernetes_validate.validate(held, "1.37", strict=True)
    [container] = relays["spec"]["template"]["spec"]["containers"]
    [holds] = held["spec"]["template"]["spec"]["containers"]
    # Probes would fail, and the first one would kill the pod in the middle of a command.
    kept = {key: value for key, value in container.items() if not key.endswith("Probe")}
    assert holds == {**kept, "command": ["sleep", "infinity"]}
    held["spec"]["template"]["spec"]["containers"] = [container]
    assert held == relays


def test_the_documented_commands_hold_the_pod_and_are_ours() -> None:
    [file] = re.findall(r"^kubectl patch statefulset pgrelay --patch-file (\S+)$", DEPLOY, re.MULTILINE)
    assert ROOT / file == FOLDER / "hold.yaml"
    [words] = re.findall(r"^kubectl exec pgrelay-0 -- pgrelay (.*)$", DEPLOY, re.MULTILINE)
    arguments = parser().parse_args(words.split())
    assert f'"{arguments.config}"' in DOCKERFILE


def _gibibytes(quantity: str) -> int:
    assert quantity.endswith("Gi")
    return int(quantity.removesuffix("Gi"))
