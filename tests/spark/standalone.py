"""A standalone Spark cluster: a master and two workers with a core each, from PySpark's own jars."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM

import pyspark

from pgrelay.embedded.daemon import Daemon
from pgrelay.embedded.ports import reserved_ports
from pgrelay.spark.java import java_home

_SPARK = Path(pyspark.__file__).parent
_JVM = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_START_S = 60.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """`works`: the workers' folders, in which every executor has its own folder."""

    master: str
    works: tuple[Path, ...]
    environment: dict[str, str]


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Run the cluster during the block."""
    home = str(java_home())
    ours = {
        "JAVA_HOME": home,
        "SPARK_HOME": str(_SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",  # which the scripts of a downloaded Spark set
    }
    given = [f"{name}={value}" for name, value in ours.items()]
    java = [f"{home}/bin/java", *_JVM, "-cp", f"{_SPARK}/jars/*"]
    works = tuple(folder / f"worker-{number}" for number in (1, 2))
    with ExitStack() as stack:
        port, page = stack.enter_context(reserved_ports(2))

        def start(name: str, ready_line: str, *arguments: str) -> None:
            log = folder / f"{name}.log"
            daemon = Daemon(name, log)
            command: list[str | os.PathLike[str]] = ["env", *given, *java, *arguments]
            daemon.start(command, ready=lambda: ready_line in log.read_text(), timeout=_START_S, cwd=folder)
            stack.callback(daemon.stop, SIGTERM, timeout=_START_S)

        master = f"spark://127.0.0.1:{port}"
        where = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]
        start("master", "I have been elected leader", "org.apache.spark.deploy.master.Master", *where)
        for work in works:
            size = ["-c", "1", "-m", "700m", "-d", str(work), "--host", "127.0.0.1", "--webui-port", "0"]
            ready_line = "Successfully registered with master"
            start(work.name, ready_line, "org.apache.spark.deploy.worker.Worker", *size, master)
        yield Cluster(master, works, {**os.environ, **ours})
