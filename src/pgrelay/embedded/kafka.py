"""An embedded Kafka broker: one KRaft node that runs while its block does."""

import base64
import logging
import shutil
import signal
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from pgrelay.embedded.account import server_folder
from pgrelay.embedded.cache import cached
from pgrelay.embedded.daemon import Daemon, StrPath, run_tool
from pgrelay.embedded.jars import Progress, fetch_jars, java
from pgrelay.embedded.kafka_jars import KAFKA_JARS, KAFKA_VERSION
from pgrelay.embedded.ports import reserved_ports

_CLUSTER_ID = base64.urlsafe_b64encode(b"pgrelay-embedded").decode().rstrip("=")

# With one node, internal topics have one replica; one partition each is quick to create. After a kill, the
# controller takes the restarted broker for a second one until the old session has expired, so that is short.
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "DIRECT",
    "listener.security.protocol.map": "DIRECT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "log.cleaner.dedupe.buffer.size": "16777216",
}

_LOGGING = """\
rootLogger.level = warn
logger.client.name = org.apache.kafka.clients.NetworkClient
logger.client.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n
"""

_JVM_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

_QUICK_TO_RETRY: dict[str, str | int | float | bool] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
}

_TIMEOUT = 60.0  # seconds to start, log recovery included, or to stop

_SILENT = logging.Logger("librdkafka")  # its messages are useless while the broker is known to be away
_SILENT.addHandler(logging.NullHandler())


class Kafka:
    """A broker on 127.0.0.1 that creates no topic by itself.

    `directory` keeps the data after the block; without it they are deleted. `settings` (server.properties)
    override ours, and may be changed before a restart. A second listener is for tests of a faulty network:
    it advertises `proxy_port`, where the test runs a proxy that forwards to `proxy_target_port`. Entering the
    block sets the attributes; it raises Unavailable if Java or the jars are not available, and ServerFailed
    if the broker does not start.
    """

    port: int
    proxy_port: int
    proxy_target_port: int
    log: Path

    def __init__(
        self,
        directory: Path | None = None,
        *,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.settings = dict(settings or {})
        self._directory = directory
        self._port = port
        self._progress = progress

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._java = java()
            self._class_path = ":".join(map(str, fetch_jars(KAFKA_JARS, self._progress)))
            self._folder = stack.enter_context(server_folder(self._directory, "kafka"))
            self.log = self._folder / "kafka.log"
            ports = stack.enter_context(reserved_ports(4))
            port, self.proxy_port, self.proxy_target_port, controller = ports
            self.port = self._port or port
            self._controller = f"127.0.0.1:{controller}"
            self._daemon = Daemon("Kafka", self.log)
            stack.callback(self._end)
            self.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def bootstrap(self) -> str:
        """The broker's own address: `bootstrap.servers` for clients that don't use the proxy."""
        return f"127.0.0.1:{self.port}"

    @property
    def proxied_bootstrap(self) -> str:
        """The address of the proxy that a test puts in front of the broker."""
        return f"127.0.0.1:{self.proxy_port}"

    @property
    def running(self) -> bool:
        return self._daemon.running

    @property
    def pid(self) -> int | None:
        return self._daemon.pid

    def start(self) -> None:
        """Start the broker with the current `settings`, and wait until it answers clients."""
        data = self._folder / "data"
        if not data.exists():
            # A Java tool formats the storage and takes most of a second: once per machine is enough.
            shutil.copytree(cached(f"kafka-{KAFKA_VERSION}-storage", self._format), data)
        properties = self._configure(data, self.settings)
        command = java_command(self._java, self._class_path, self._folder, "-Xmx384m")
        client = AdminClient(_QUICK_TO_RETRY | {"bootstrap.servers": self.bootstrap}, logger=_SILENT)
        self._daemon.start(
            [*command, "kafka.Kafka", properties],
            ready=lambda: _answers(client),
            timeout=_TIMEOUT,
            cwd=self._folder,
        )

    def stop(self) -> None:
        """Stop the broker cleanly, if it runs."""
        if self.running:
            self.resume()
        self._daemon.stop(signal.SIGTERM, timeout=_TIMEOUT)

    def kill(self) -> None:
        """End the broker with SIGKILL. What it has acknowledged to a client survives."""
        self._daemon.kill()

    def pause(self) -> None:
        """Pause the broker: connections stay open, and nothing answers."""
        self._daemon.pause()

    def resume(self) -> None:
        self._daemon.resume()

    def restart(self) -> None:
        """Stop and start the broker, on the same ports."""
        self.stop()
        self.start()

    def _configure(self, data: Path, settings: Mapping[str, str]) -> Path:
        direct, proxied = f"DIRECT://{self.bootstrap}", f"PROXIED://{self.proxied_bootstrap}"
        ours = _SETTINGS | {
            "log.dirs": str(data),
            "listeners": f"{direct},PROXIED://127.0.0.1:{self.proxy_target_port},CONTROLLER://{self._controller}",
            "advertised.listeners": f"{direct},{proxied}",
            "controller.quorum.voters": f"1@{self._controller}",
        }
        properties = self._folder / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in {**ours, **settings}.items()))
        return properties

    def _format(self, data: Path) -> None:
        """Format a folder as the storage of a new node; the result contains no path and no port."""
        tool = ("kafka.tools.StorageTool", "format", "--cluster-id", _CLUSTER_ID)
        command = java_command(self._java, self._class_path, self._folder, "-Xmx96m")
        run_tool([*command, *tool, "--config", self._configure(data, {})], cwd=self._folder)

    def _end(self) -> None:
        if self._directory is None:
            self.kill()  # nobody keeps the data
        else:
            self.stop()


def java_command(java: StrPath, class_path: str, folder: Path, *options: str) -> list[StrPath]:
    """The command that runs Kafka's classes with little logging, and all their files below `folder`."""
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING)
    # The codecs unpack their libraries to tmpdir, and after a kill nobody else would remove them.
    places = f"-Djava.io.tmpdir={folder}", f"-Dlog4j2.configurationFile={logging}"
    # In a Turkish locale "classic" in capitals is not CLASSIC, and Kafka does not start.
    language = "-Duser.language=en", "-Duser.country=US"
    return [java, *options, *_JVM_OPTIONS, *language, *places, "-cp", class_path]


def _answers(client: AdminClient) -> bool:
    try:
        client.list_topics(timeout=0.5)
    except KafkaException:
        return False
    return True
