"""A real Prometheus that scrapes one address, and its promtool; both from Debian's package."""

import json
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import yaml

from pgrelay.embedded.account import server_folder
from pgrelay.embedded.daemon import Daemon, StrPath
from pgrelay.embedded.ports import free_port
from tests.debian import debian_program

_TIMEOUT: Final = 60.0  # seconds to start or to stop


def promtool(*arguments: str | Path, stdin: bytes | None = None) -> subprocess.CompletedProcess[str]:
    """Run promtool to its end; its output is stdout and stderr together."""
    tool = debian_program("promtool", "prometheus", "usr/bin/promtool")
    done = subprocess.run(
        [tool.path, *arguments],
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=tool.environment,
        timeout=_TIMEOUT,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), "")


class Prometheus:
    """A Prometheus on 127.0.0.1 that scrapes `target` (host:port) every second, and evaluates the rules."""

    def __init__(self, target: str, rules: Path) -> None:
        self._target = target
        self._rules = rules

    def __enter__(self) -> Self:
        program = debian_program("prometheus", "prometheus", "usr/bin/prometheus")
        with ExitStack() as stack:
            folder = stack.enter_context(server_folder(None, "prometheus"))
            port = free_port()
            self._url = f"http://127.0.0.1:{port}"
            config = folder / "prometheus.yml"
            config.write_text(yaml.safe_dump(self._configuration()))
            daemon = Daemon("Prometheus", folder / "prometheus.log")
            stack.callback(daemon.kill)
            stack.callback(daemon.stop, signal.SIGTERM, timeout=_TIMEOUT)
            command: list[StrPath] = [
                program.path,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
            ]
            command.append(f"--web.listen-address=127.0.0.1:{port}")
            daemon.start(command, ready=self._answers, timeout=_TIMEOUT, cwd=folder)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result vector of an instant query. Raises AssertionError with Prometheus's message."""
        return list(self._get("/api/v1/query", query=expression)["result"])

    def rules(self) -> list[dict[str, Any]]:
        """The alerting rules as they were last evaluated."""
        groups = self._get("/api/v1/rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def _configuration(self) -> dict[str, Any]:
        scrape = {"job_name": "pgrelay", "static_configs": [{"targets": [self._target]}]}
        intervals = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        return {"global": intervals, "rule_files": [str(self._rules)], "scrape_configs": [scrape]}

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self._url}/-/ready", timeout=5).close()
        except OSError:
            return False
        return True

    def _get(self, path: str, **parameters: str) -> dict[str, Any]:
        address = f"{self._url}{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:
                body = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{parameters}: {error.read().decode()}") from None
        return dict(body["data"])
