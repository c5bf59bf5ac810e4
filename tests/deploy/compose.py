"""deploy/compose/compose.yaml as Docker reads it, with variables replaced and anchors merged."""

import re
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "deploy/compose"
FILE: Final = FOLDER / "compose.yaml"

_VARIABLE: Final = re.compile(r"\$\{(\w+):-([^}]*)\}")

# All other variables have their defaults.
_GIVEN: Final = {"PGRELAY_PASSWORD": "p@ss/w#rd:%41"}


class Compose:
    """The services, with defaults for all variables except the password, which has URI characters."""

    def __init__(self) -> None:
        text = _VARIABLE.sub(lambda match: _GIVEN.get(match[1], match[2]), FILE.read_text())
        assert "${" not in text, "every variable has a default"
        self.services: dict[str, dict[str, Any]] = yaml.safe_load(text)["services"]

    def environment(self, service: str) -> dict[str, str]:
        return dict(self.services[service].get("environment", {}))

    def command(self, service: str) -> list[str]:
        return list(self.services[service]["command"])

    def mounts(self, service: str) -> dict[str, Path]:
        """The project's mounts: the path in the container -> the path here."""
        volumes = [volume.split(":") for volume in self.services[service].get("volumes", [])]
        return {parts[1]: (FOLDER / parts[0]).resolve() for parts in volumes if parts[0].startswith(".")}

    def published(self, service: str) -> list[int]:
        """The ports in the container that the host can reach."""
        return [int(ports.split(":")[-1]) for ports in self.services[service].get("ports", [])]
