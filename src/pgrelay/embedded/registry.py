"""An embedded schema registry: Apicurio, with Confluent's API; it runs while its block does."""

import json
import tarfile
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pgrelay.embedded.account import server_folder
from pgrelay.embedded.binaries import TAR_OPTIONS
from pgrelay.embedded.cache import cached
from pgrelay.embedded.daemon import Daemon, StrPath
from pgrelay.embedded.jars import fetch_jars, java
from pgrelay.embedded.ports import reserved_ports

VERSION: Final = "3.3.3"

# The dependencies of the plain jar do not resolve; this archive contains them all.
_ARCHIVE: Final = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"

_JVM_OPTIONS: Final = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

_TIMEOUT: Final = 180.0  # seconds to start, on a busy machine
_ANSWER_TIMEOUT: Final = 10.0


class SchemaRegistry:
    """A registry on 127.0.0.1 that keeps schemas in memory and requires them to be compatible.

    With `compatibility` None the level is the registry's own, which environment variables can set. `kill`
    loses the schemas. Entering the block sets the attributes, and takes about twenty seconds; it raises
    Unavailable if Java or the archive is not available, and ServerFailed if the registry does not start.
    """

    port: int
    log: Path

    def __init__(
        self,
        *,
        compatibility: str | None = "BACKWARD",
    ) -> None:
        self._compatibility = compatibility

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._java = java()
            self._programs = cached(f"apicurio-{VERSION}", self._unpack)
            self._folder = stack.enter_context(server_folder(None, "registry"))
            self.log = self._folder / "registry.log"
            self.port, self._management_port = stack.enter_context(reserved_ports(2))
            self._daemon = Daemon("Apicurio Registry", self.log)
            stack.callback(self.kill)
            self.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        """The URL for Confluent's client."""
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    @property
    def running(self) -> bool:
        return self._daemon.running

    def start(self) -> None:
        """Start the registry, empty, and wait until it answers."""
        # Its management interface listens too; the default is port 9000 on every address.
        listening = (
            "-Dquarkus.http.host=127.0.0.1",
            f"-Dquarkus.http.port={self.port}",
            "-Dquarkus.management.host=127.0.0.1",
            f"-Dquarkus.management.port={self._management_port}",
        )
        command: list[StrPath] = [
            self._java,
            *_JVM_OPTIONS,
            # It unpacks libraries there at each start, and a killed process leaves them.
            f"-Djava.io.tmpdir={self._folder}",
            *listening,
            "-jar",
            self._programs / "quarkus-run.jar",
        ]
        self._daemon.start(command, ready=self._answers, timeout=_TIMEOUT, cwd=self._folder)
        # The default level of Confluent's registry is BACKWARD, that of Apicurio is NONE.
        if self._compatibility is not None:
            self._put("/config", {"compatibility": self._compatibility})

    def kill(self) -> None:
        """End the registry; its schemas are lost."""
        self._daemon.kill()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/config", timeout=_ANSWER_TIMEOUT) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _put(self, path: str, body: dict[str, str]) -> None:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(
            f"{self.url}{path}", json.dumps(body).encode(), headers=headers, method="PUT"
        )
        urllib.request.urlopen(request, timeout=_ANSWER_TIMEOUT).close()

    def _unpack(self, target: Path) -> None:
        [archive] = fetch_jars([_ARCHIVE])
        with tarfile.open(archive) as packed:
            packed.extractall(target, **TAR_OPTIONS)
