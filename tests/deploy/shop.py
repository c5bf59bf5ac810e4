"""The services of deploy/compose on embedded servers, each started as the compose file says."""

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from pgrelay.embedded.account import server_folder
from pgrelay.embedded.daemon import Daemon
from pgrelay.embedded.kafka import Kafka
from pgrelay.embedded.ports import free_port, reserved_ports
from pgrelay.embedded.postgres import Postgres
from pgrelay.embedded.registry import SchemaRegistry
from tests.deploy.compose import Compose

_TIMEOUT: Final = 60.0  # seconds to start
_RUN_TIMEOUT: Final = 240.0  # seconds for a command to end by itself; Spark's takes longest

# As in the image: no password on the server's own socket, which runs init.sql, but one over TCP.
_RULES: Final = """\
host all postgres all trust
host all all all scram-sha-256
"""


class ComposedKafka(Kafka):
    """A broker with only the given settings, so a setting that the compose file lacks is missing."""

    def _configure(self, data: Path, settings: Mapping[str, str]) -> Path:
        properties = super()._configure(data, settings)
        if settings:  # without settings, only the storage is formatted
            lines = {**settings, "log.dirs": str(data)}
            properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return properties


class Shop:
    """The running services of the compose file; `addresses` maps each `service:port` to its real address."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.compose = Compose()
        self.addresses: dict[str, str] = {}
        self.folder = folder
        self._stack = stack

    def moved(self, text: str) -> str:
        """The text with every `service:port` replaced by its real address."""
        for address in sorted(self.addresses, key=len, reverse=True):
            text = text.replace(address, self.addresses[address])
        return text

    def moved_file(self, service: str, inside: str) -> Path:
        """A copy of a file that is mounted into a service, with real addresses."""
        copy = self.folder / service / Path(inside).name
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(self.moved(self.compose.mounts(service)[inside].read_text()))
        return copy

    def variables(self, service: str) -> dict[str, str]:
        """The service's variables, with real addresses."""
        return {name: self.moved(value) for name, value in self.compose.environment(service).items()}

    def postgres(self) -> Postgres:
        """The server with the command's settings, after init.sql was run as in the image."""
        _, *words = self.compose.command("postgres")
        assert words[::2] == ["-c"] * (len(words) // 2)
        settings = dict(setting.split("=", 1) for setting in words[1::2])
        rules = self._stack.enter_context(server_folder(None, "rules")) / "pg_hba.conf"
        rules.parent.chmod(0o755)
        rules.write_text(_RULES)
        rules.chmod(0o644)
        server = self._stack.enter_context(Postgres(settings={**settings, "hba_file": str(rules)}))
        self.addresses["postgres:5432"] = f"127.0.0.1:{server.port}"
        variables = self.variables("postgres")
        database = server.create_database(variables["POSTGRES_DB"])
        script = self.compose.mounts("postgres")["/docker-entrypoint-initdb.d/init.sql"]
        psql = server.bin / "psql"
        options = ["--no-psqlrc", "--set=ON_ERROR_STOP=1", f"--file={script}", f"--dbname={database}"]
        self.run("postgres", [psql, *options])
        return server

    def kafka(self) -> Kafka:
        """The broker with the variables as in the image: KAFKA_NODE_ID is node.id, and so on."""
        inside, controller, host = self._stack.enter_context(reserved_ports(3))
        ports = {"9092": inside, "9093": controller, "9094": host}
        self.addresses |= {f"kafka:{port}": f"127.0.0.1:{ours}" for port, ours in ports.items()}
        self.addresses["localhost:9094"] = f"127.0.0.1:{host}"
        settings = {
            name.removeprefix("KAFKA_").lower().replace("_", "."): value
            for name, value in self.variables("kafka").items()
        }
        for port, ours in ports.items():
            settings["listeners"] = settings["listeners"].replace(f"//:{port}", f"//127.0.0.1:{ours}")
        return self._stack.enter_context(ComposedKafka(port=ports["9092"], settings=settings))

    def registry(self) -> SchemaRegistry:
        """The registry with the service's variables in its environment."""
        with environment(self.variables("registry")):
            registry = self._stack.enter_context(SchemaRegistry(compatibility=None))
        self.addresses["registry:8080"] = f"127.0.0.1:{registry.port}"
        return registry

    def relay(self, service: str) -> Daemon:
        """A streaming relay with the service's configuration and variables, and those of the image."""
        port = free_port()
        self.addresses[f"{service}:8080"] = f"127.0.0.1:{port}"
        config = self.moved_file(service, "/etc/pgrelay/relay.yaml")
        image = {
            "PGRELAY_HTTP__LISTEN": f"127.0.0.1:{port}",
            "PGRELAY_TRANSACTIONS__SPOOL_DIR": str(config.parent / "spool"),
        }
        command = [sys.executable, "-m", "pgrelay", "run", "--config", str(config)]
        return self.daemon(service, command, f"http://127.0.0.1:{port}/readyz", image)

    def daemon(
        self, service: str, command: list[str], ready: str, more: Mapping[str, str] | None = None
    ) -> Daemon:
        """Start a process with the service's variables and `more`; wait until the URL `ready` answers 200."""
        daemon = Daemon(service, self.folder / f"{service}.log")
        self._stack.callback(daemon.kill)
        with environment({**self.variables(service), **(more or {})}):
            daemon.start(command, ready=lambda: status(ready) == 200, timeout=_TIMEOUT, cwd=self.folder)
        return daemon

    def run(self, service: str, command: list[str | Path], **more: str) -> str:
        """The output of a command with the service's variables, which must end by itself with code 0."""
        with environment({**self.variables(service), **more}):
            done = subprocess.run(
                command, capture_output=True, text=True, cwd=self.folder, timeout=_RUN_TIMEOUT
            )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Our environment with these variables, and without those that lead to other servers and relays."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("PGRELAY_", "PG"))]:
            patch.delenv(name)
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


def status(url: str) -> int:
    """The HTTP status of the answer; 0 without an answer."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0
