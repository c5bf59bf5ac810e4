"""The manifests in deploy/kubernetes, by kind."""

from pathlib import Path
from typing import Any, Final

import yaml

from tests.deploy.compose import ROOT

FOLDER: Final = ROOT / "deploy/kubernetes"
BASE: Final = FOLDER / "base"
MONITORED: Final = FOLDER / "servicemonitor"


def manifest(kind: str) -> dict[str, Any]:
    """The manifest of this kind, in the base or its additions."""
    [found] = [document for document in manifests() if document["kind"] == kind]
    return found


def manifests(*folders: Path) -> list[dict[str, Any]]:
    """The manifests that kustomization.yaml lists in these folders: the base and its additions."""
    return [
        yaml.safe_load((folder / name).read_text())
        for folder in folders or (BASE, MONITORED)
        for name in kustomization(folder)["resources"]
    ]


def kustomization(folder: Path = BASE) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((folder / "kustomization.yaml").read_text())
    return document


def durable() -> dict[str, Any]:
    """The StatefulSet of durable-spool."""
    [patch] = kustomization(FOLDER / "durable-spool")["patches"]
    return dict(merged(manifest("StatefulSet"), yaml.safe_load(patch["patch"])))


def merged(given: Any, patch: Any) -> Any:
    """Kubernetes's strategic merge, as far as our patches need it: objects in a list are the same by name."""
    if isinstance(patch, dict):
        result = {key: value for key, value in (given or {}).items() if patch.get(key, value) is not None}
        return result | {
            key: merged(result.get(key), value) for key, value in patch.items() if value is not None
        }
    if not all(isinstance(each, dict) and "name" in each for each in patch):
        return patch
    named = {each["name"]: each for each in given or []}
    named |= {each["name"]: merged(named.get(each["name"]), each) for each in patch}
    return [each for each in named.values() if each.get("$patch") != "delete"]


def pod() -> dict[str, Any]:
    """The pod template's spec."""
    spec: dict[str, Any] = manifest("StatefulSet")["spec"]["template"]["spec"]
    return spec


def container() -> dict[str, Any]:
    [only] = pod()["containers"]
    return dict(only)


def secret() -> dict[str, str]:
    """The environment variables in the example secret."""
    variables: dict[str, str] = yaml.safe_load((FOLDER / "secret.example.yaml").read_text())["stringData"]
    return variables
