"""Run an unpacked image on an embedded Postgres and Kafka, as an engine would with all that it can forbid.

    sudo .venv/bin/python deploy/image/run.py --root FOLDER --image INSPECTED.json

`deploy/image/build` calls it. Process 1 of a namespace of its own, the user and environment of the image, no
capabilities, a read-only root with one tmpfs for the spool; only the network is the host's. It ends with 1
and a line that tells what was expected, where something is otherwise.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
import yaml
from confluent_kafka import Consumer

from pgrelay.embedded.kafka import Kafka
from pgrelay.embedded.ports import free_port
from pgrelay.embedded.postgres import Postgres

_ROWS: Final = 10_000
_PATIENCE_S: Final = 60.0

_CONTAINER: Final = """\
set -e
mount --bind {root} {root}
mount --bind /dev {root}/dev
mount -t proc proc {root}/proc
mount -t tmpfs -o uid={uid},gid={gid},mode=0700 spool {root}/var/lib/pgrelay
mkdir -p {root}/etc/pgrelay
mount --bind {config} {root}/etc/pgrelay
mount -o remount,ro,bind {root}
cd {root}
exec chroot {root} setpriv --reuid={uid} --regid={gid} --clear-groups --bounding-set=-all --no-new-privs \
env -i {environment} {command}
"""


class Container:
    """Process 1 of the image while its block runs; killed with it."""

    def __init__(self, root: Path, image: dict[str, Any], config: Path, environment: list[str]) -> None:
        self.settings: dict[str, Any] = image["Docker"]["config"]
        self._uid, self._gid = self.settings["User"].split(":")
        self._environment = [*self.settings["Env"], *environment]
        script = _CONTAINER.format(
            root=shlex.quote(str(root)),
            config=shlex.quote(str(config)),
            uid=self._uid,
            gid=self._gid,
            environment=shlex.join(self._environment),
            command=shlex.join(self.settings["Entrypoint"] + self.settings["Cmd"]),
        )
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation=private"]
        self._process = subprocess.Popen([*namespaces, "sh", "-c", script], stdin=subprocess.DEVNULL)

    @property
    def pid(self) -> int:
        """Of the image's process 1, as the host numbers it."""
        outer = self._process.pid
        children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
        assert children, "process 1 runs"
        return int(children[0])

    def status(self, name: str) -> str:
        """A field of /proc/PID/status."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:"))

    def execute(self, command: list[str], *, root: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command beside process 1, as `docker exec` does; as root where asked."""
        enter = ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--root"]
        user = [] if root else ["--setuid", self._uid, "--setgid", self._gid]
        whole = [*enter, *user, "env", "-i", *self._environment, *command]
        return subprocess.run(whole, capture_output=True, text=True)

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Its exit code."""
        return self._process.wait(_PATIENCE_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description="Run an unpacked image on real servers.")
    parser.add_argument("--root", type=Path, required=True, help="the folder that the image is unpacked in")
    parser.add_argument("--image", type=Path, required=True, help="what buildah inspect --type image said")
    options = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("needs root, for the namespaces")
    image = json.loads(options.image.read_text())
    with Postgres() as postgres, Kafka() as kafka, tempfile.TemporaryDirectory() as folder:
        port = free_port()
        config = _configuration(Path(folder), postgres, kafka)
        environment = ["DB_PORT=" + str(postgres.port), f"PGRELAY_HTTP__LISTEN=0.0.0.0:{port}"]
        with _running(Container(options.root, image, config, environment)) as container:
            try:
                _prove(container, postgres, kafka, port)
            except AssertionError as failure:
                print(f"failed: {failure}", file=sys.stderr)
                return 1
    return 0


def _configuration(folder: Path, postgres: Postgres, kafka: Kafka) -> Path:
    """A folder with relay.yaml, which any account can read, as a mounted ConfigMap."""
    sections = {
        "source": {"dsn": "postgresql://postgres@127.0.0.1:${DB_PORT}/postgres"},
        "sink": {"kafka": {"bootstrap.servers": kafka.bootstrap}},
    }
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY, note text)")
    (folder / "relay.yaml").write_text(yaml.safe_dump(sections))
    folder.chmod(0o755)
    return folder


@contextmanager
def _running(container: Container) -> Iterator[Container]:
    try:
        yield container
    finally:
        container.kill()


def _prove(container: Container, postgres: Postgres, kafka: Kafka, port: int) -> None:
    _wait_ready(container, f"http://127.0.0.1:{port}/readyz")
    print("ok    /readyz is 200")
    _prove_confinement(container)
    _prove_health(container)
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        insert = "INSERT INTO orders SELECT n, 'a note' FROM generate_series(1, %s) AS n"
        connection.execute(insert, [_ROWS])
    assert _records(kafka, "app.public.orders") == _ROWS, f"expected {_ROWS} records"
    print(f"ok    {_ROWS} rows written, {_ROWS} records read; peak RSS {container.status('VmHWM')}")
    container.send(signal.SIGTERM)
    code = container.wait()
    assert code == 0, f"SIGTERM ends process 1 with exit code 0, not {code}"
    print("ok    SIGTERM ends process 1 with exit code 0")


def _prove_confinement(container: Container) -> None:
    expected = {"Uid": "10001", "Gid": "10001", "CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1"}
    for name, value in expected.items():
        found = container.status(name).split()[0]
        assert found == value, f"{name} of process 1 is {value}, not {found}"
    assert container.status("NSpid").split()[-1] == "1", "the relay is process 1"
    print("ok    process 1, uid and gid 10001, no capabilities")
    touched = container.execute(["touch", "/opt/pgrelay/x"], root=True)
    assert "Read-only file system" in touched.stderr, f"root can't write: {touched.stderr}"
    print("ok    the root is read-only, even for root")
    for program in ("/usr/bin/gcc", "/opt/pgrelay/bin/pip", "/src"):
        assert container.execute(["test", "-e", program]).returncode == 1, f"{program} is not in the image"
    version = container.execute(["/usr/local/bin/pgrelay", "--version"]).stdout.strip()
    assert version.endswith("(compiled)"), f"the modules are compiled: {version}"
    print(f"ok    {version}; no compiler, no pip beside it")


def _prove_health(container: Container) -> None:
    kind, *command = container.settings["Healthcheck"]["Test"]
    assert kind == "CMD", f"HEALTHCHECK needs no shell: {kind}"
    healthy = container.execute(command)
    assert healthy.returncode == 0, f"HEALTHCHECK passes: {healthy.stderr}"
    container.send(signal.SIGSTOP)
    stopped = container.execute(command)
    container.send(signal.SIGCONT)
    assert stopped.returncode != 0, "HEALTHCHECK fails while the process hangs"
    print("ok    HEALTHCHECK passes, and fails while the process hangs")


def _records(kafka: Kafka, topic: str) -> int:
    """How many records the topic has, once it has all that were written or patience ends."""
    options = {"bootstrap.servers": kafka.bootstrap, "group.id": "image", "auto.offset.reset": "earliest"}
    consumer = Consumer(options)
    try:
        consumer.subscribe([topic])
        count, deadline = 0, time.monotonic() + _PATIENCE_S
        while count < _ROWS and time.monotonic() < deadline:
            messages = consumer.consume(1000, timeout=1.0)
            count += sum(message.error() is None for message in messages)
        return count + sum(message.error() is None for message in consumer.consume(1, timeout=1.0))
    finally:
        consumer.close()


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except OSError:
        return 0


def _wait_ready(container: Container, url: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while _status(url) != 200:
        code = container.exit_code
        assert code is None, f"the relay runs; it ended with exit code {code}"
        assert time.monotonic() < deadline, f"{url} answers 200 within {_PATIENCE_S:g} s"
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
