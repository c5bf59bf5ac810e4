"""`pgrelay spark-mirror` as a process, with a configuration file and a log."""

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.integration.relays import Relay
from tests.integration.waiting import wait_until
from tests.ports import held_port
from tests.spark.options import OPTIONS

_PATIENCE = 120.0  # seconds

# As small as other sessions; without PySpark's bars by itself.
_OPTIONS = {name: value for name, value in OPTIONS.items() if name != "spark.ui.showConsoleProgress"}


class MirrorCommand:
    """The mirror of a relay's tables into Delta tables in a folder. The process ends with the block."""

    def __init__(
        self, relay: Relay, folder: Path, tables: Sequence[str], **sections: Mapping[str, Any]
    ) -> None:
        self._stack = ExitStack()
        self.address = f"127.0.0.1:{self._stack.enter_context(held_port())}"
        self.warehouse = folder / "lake"
        self.config = folder / "mirror.yaml"
        self._log_file = folder / "mirror.log"
        self._process: subprocess.Popen[bytes] | None = None
        ours: dict[str, Any] = {
            "kafka": {"servers": relay.kafka.bootstrap, "prefix": relay.prefix},
            "lake": {
                "warehouse": str(self.warehouse),
                "tables": {relay.topic(table): f"lake.{table}" for table in tables},
                "every_s": 0.5,
            },
            "spark": {"master": "local[2]", "options": _OPTIONS},
            "http": {"listen": self.address},
        }
        for name, section in sections.items():
            ours[name] = {**ours.get(name, {}), **section}
        self.config.write_text(yaml.safe_dump(ours))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._stack.close()

    def start(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "pgrelay", "spark-mirror", "--config", str(self.config), *arguments]
        self.run(command)

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        with self._log_file.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self.wait_exit()

    def wait_exit(self) -> int:
        assert self._process is not None
        try:
            return self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the mirror did not end:\n{self.log_text}") from None

    @property
    def log_text(self) -> str:
        return self._log_file.read_text()

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = [line for line in self.log_text.split("\n")[:-1] if line.startswith("{")]
        return [event for line in lines if (event := json.loads(line))["event"] == name]

    def wait_event(self, name: str) -> None:
        self._wait(lambda: bool(self.events(name)), f"event {name!r}")

    def wait_more_events(self, name: str) -> None:
        """Wait for another event of that name."""
        count = len(self.events(name))
        self._wait(lambda: len(self.events(name)) > count, f"event {name!r}")

    def wait_metric(self, sample: str, value: float) -> None:
        """Wait until a sample, in Prometheus's notation, has this value."""
        self._wait(lambda: self._metric(sample) == value, f"{sample} {value:g}")

    def _metric(self, sample: str) -> float | None:
        try:
            with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=30) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return None
        found = [line for line in lines if line.startswith(f"{sample} ")]
        return float(found[0].rpartition(" ")[2]) if found else None

    def metric(self, sample: str) -> float:
        value = self._metric(sample)
        assert value is not None, sample
        return value

    def _wait(self, condition: Any, what: str) -> None:
        def true_or_ended() -> bool:
            assert self._process is not None
            if condition():
                return True
            assert self._process.poll() is None, f"waited for {what}, but it ended:\n{self.log_text}"
            return False

        wait_until(true_or_ended, what, _PATIENCE)
