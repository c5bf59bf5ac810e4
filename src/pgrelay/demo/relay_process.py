"""The relay as any user runs it: a configuration file, and its own process."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import yaml

from pgrelay.embedded.daemon import Daemon, StrPath
from pgrelay.embedded.ports import free_port

PREFIX: Final = "shop"
SLOT: Final = "shop"

_START_TIMEOUT_S: Final = 30.0
_STOP_TIMEOUT_S: Final = 15.0


class RelayProcess:
    """Runs while its block does. Entering the block returns once `is_streaming` returns True.

    If `is_streaming` raises, that ends the start. Raises ServerFailed, with the end of the log, if the relay
    ends before it streams or takes too long.
    """

    def __init__(self, folder: Path, dsn: str, bootstrap: str, is_streaming: Callable[[], bool]) -> None:
        self.config = folder / "pgrelay.yaml"
        self.http = f"127.0.0.1:{free_port()}"
        self._folder = folder
        self._dsn = dsn
        self._bootstrap = bootstrap
        self._is_streaming = is_streaming
        self.log = folder / "relay.log"
        self._daemon = Daemon("the relay", self.log)

    def __enter__(self) -> Self:
        self.config.write_text(self._configuration())
        command: list[StrPath] = [sys.executable, "-m", "pgrelay", "run", "--config", self.config]
        self._daemon.start(command, ready=self._is_streaming, timeout=_START_TIMEOUT_S, cwd=self._folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._daemon.kill()

    @property
    def running(self) -> bool:
        return self._daemon.running

    def stop(self) -> int:
        """Stop it cleanly, and return its exit code. Raises ServerFailed if it does not stop."""
        self._daemon.stop(signal.SIGTERM, timeout=_STOP_TIMEOUT_S)
        assert self._daemon.exit_code is not None
        return self._daemon.exit_code

    def _configuration(self) -> str:
        sections = {
            "source": {"dsn": self._dsn, "slot": SLOT},
            "sink": {"kafka": {"bootstrap.servers": self._bootstrap}},
            "records": {"prefix": PREFIX, "json": "inline"},
            "transactions": {"spool_dir": str(self._folder / "spool")},
            "http": {"listen": self.http},
        }
        return yaml.safe_dump(sections, sort_keys=False)
