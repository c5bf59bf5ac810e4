"""A cluster of several Kafka brokers for one test, each of which can be damaged separately."""

import signal
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pgrelay.embedded.account import server_folder
from pgrelay.embedded.daemon import Daemon, StrPath, run_tool
from pgrelay.embedded.jars import fetch_jars, java
from pgrelay.embedded.kafka import java_command
from pgrelay.embedded.kafka_jars import KAFKA_JARS
from pgrelay.embedded.ports import reserved_ports
from pgrelay.kafka.log import librdkafka_logger
from tests.integration.waiting import wait_until

_CLUSTER_ID = "cGdyZWxheS1jbHVzdGVyMQ"
_TIMEOUT = 60.0  # seconds to start or stop

# The cluster notices a lost broker soon, and does not give it back partitions that another leads meanwhile.
_SETTINGS = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "log.cleaner.dedupe.buffer.size": "16777216",
}


class Brokers:
    """Brokers on 127.0.0.1 with the ids 1, 2 and so on, each a controller as well.

    Entering the block raises Unavailable if Java or the jars are not available, and ServerFailed if a broker
    does not start.
    """

    def __init__(self, count: int) -> None:
        self.ids = range(1, count + 1)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._java = java()
            self._class_path = ":".join(map(str, fetch_jars(KAFKA_JARS, None)))
            self._folder = stack.enter_context(server_folder(None, "brokers"))
            ports = stack.enter_context(reserved_ports(2 * len(self.ids)))
            self._ports = dict(zip(self.ids, ports, strict=False))
            self._controllers = dict(zip(self.ids, ports[len(self.ids) :], strict=True))
            self._daemons = {node: Daemon(f"broker {node}", self._home(node) / "log") for node in self.ids}
            for node in self.ids:
                self._format(node)
            stack.callback(self._end)
            # Its log messages are useless while brokers are known to be away.
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap}, logger=librdkafka_logger())
            self.mend()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def live(self) -> set[int]:
        """The brokers that the cluster considers alive; none if it does not answer."""
        try:
            return set(self._admin.list_topics(timeout=5).brokers)
        except KafkaException:
            return set()

    def leader(self, topic: str) -> int:
        """The leader of the topic's first partition; 0 if there is none or the broker does not know it."""
        try:
            return max(0, self._admin.list_topics(topic, timeout=5).topics[topic].partitions[0].leader)
        except (KafkaException, KeyError):
            return 0

    def create_topic(self, topic: str, replicas: list[int], config: dict[str, str]) -> None:
        """Create a topic with one partition; the first of its replicas leads."""
        new = NewTopic(topic, 1, replica_assignment=[replicas], config=config)
        self._admin.create_topics([new])[topic].result()

    def start(self, node: int) -> None:
        """Start a broker without waiting until it answers."""
        home = self._home(node)
        command = [*self._command(node, "-Xmx256m"), "kafka.Kafka", home / "server.properties"]
        self._daemons[node].start(command, ready=lambda: True, timeout=_TIMEOUT, cwd=home)

    def kill(self, node: int) -> None:
        self._daemons[node].kill()

    def stop(self, node: int) -> None:
        """Stop a broker as for a restart: it first gives up the partitions that it leads."""
        self._daemons[node].stop(signal.SIGTERM, timeout=_TIMEOUT)

    def pause(self, node: int) -> None:
        """Make a broker hang: its connections stay open, and it answers nobody."""
        self._daemons[node].pause()

    def mend(self) -> None:
        """Make all brokers run, and wait until all replicas of all topics are in sync."""
        for node in self.ids:
            if self._daemons[node].running:
                self._daemons[node].resume()
            else:
                self.start(node)
        wait_until(self._whole, "all brokers and replicas", _TIMEOUT)

    def _whole(self) -> bool:
        """Whether each broker says so: one that was paused still believes that it leads what it led."""
        views = [self._view(port) for port in self._ports.values()]
        brokers, parts = views[0]
        return (
            views.count(views[0]) == len(views)
            and brokers == set(self.ids)
            and all(leader >= 0 and isrs == replicas for leader, isrs, replicas in parts.values())
        )

    def _view(self, port: int) -> tuple[set[int], dict[tuple[str, int], tuple[int, set[int], set[int]]]]:
        """The brokers that one broker knows, and for each partition its leader, its ISRs and its replicas."""
        # A client of its own, since one that knows all brokers asks any of them.
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}, logger=librdkafka_logger())
        try:
            found = admin.list_topics(timeout=5)
        except KafkaException:
            return set(), {}
        parts = {
            (name, number): (part.leader, set(part.isrs), set(part.replicas))
            for name, topic in found.topics.items()
            for number, part in topic.partitions.items()
        }
        return set(found.brokers), parts

    def _home(self, node: int) -> Path:
        return self._folder / str(node)

    def _command(self, node: int, heap: str) -> list[StrPath]:
        return java_command(self._java, self._class_path, self._home(node), heap)

    def _format(self, node: int) -> None:
        home = self._home(node)
        home.mkdir()
        listener, controller = (
            f"{name}://127.0.0.1:{ports[node]}"
            for name, ports in (("PLAINTEXT", self._ports), ("CONTROLLER", self._controllers))
        )
        ours = _SETTINGS | {
            "node.id": str(node),
            "process.roles": "broker,controller",
            "listeners": f"{listener},{controller}",
            "advertised.listeners": listener,
            "controller.quorum.voters": ",".join(
                f"{voter}@127.0.0.1:{self._controllers[voter]}" for voter in self.ids
            ),
            "log.dirs": str(home / "data"),
        }
        properties = home / "server.properties"
        properties.write_text("".join(f"{k}={v}\n" for k, v in ours.items()))
        tool = ("kafka.tools.StorageTool", "format", "--cluster-id", _CLUSTER_ID)
        run_tool([*self._command(node, "-Xmx96m"), *tool, "--config", properties], cwd=home)

    def _end(self) -> None:
        for daemon in self._daemons.values():
            daemon.kill()
