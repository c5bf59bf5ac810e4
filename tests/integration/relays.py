"""The relay as its users run it: the command `pgrelay run`, a configuration file, and its log."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
import yaml

from pgrelay.lsn import parse_lsn
from tests.halting import halt
from tests.integration.databases import Database
from tests.integration.least_role import let_in, publish
from tests.integration.program import Program, run
from tests.integration.servers import KafkaServer
from tests.integration.topics import Record, await_markers, read_topic, topic_names
from tests.integration.waiting import OutOfPatience, wait_until
from tests.ports import held_port

_PGRELAY = Path(sys.executable).with_name("pgrelay")
_CAN_FORK = hasattr(os, "pidfd_open")  # true on Linux
_STOP_TIMEOUT = 60.0  # seconds, like all below: the machine may be busy
_ANSWER_TIMEOUT = 30.0
_PATIENCE = 60.0

Sections = Mapping[str, Any]


class Relay:
    """One relay of a database: `prefix` is the name of its slot and the beginning of its topics' names.

    It connects as the role of docs/security.md, so the publication is created here. It connects as the
    superuser if a test makes it create its own publication (`source.tables`) or gives a `source.dsn`.

    `sections` are merged over the tests' default configuration: `{"source": {"streaming": "off"}}`; they may
    be changed before a start. The process is ended at the end of the block; the slot is dropped with the
    database. `http_address` is where it listens, host:port.
    """

    http_address: str

    def __init__(
        self, database: Database, kafka: KafkaServer, prefix: str, folder: Path, sections: Sections
    ) -> None:
        self.database = database
        self.kafka = kafka
        self.prefix = prefix
        self.sections = dict(sections)
        self._folder = folder
        self._process: Program | subprocess.Popen[bytes] | None = None
        self._runs = 0
        self._dsn: str | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._folder.mkdir()
        self.http_address = f"127.0.0.1:{self._stack.enter_context(held_port())}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._stack.close()

    def start(self, *, forked: bool = _CAN_FORK) -> Self:
        """Start the process without waiting for anything. If not `forked`, start the real script."""
        assert not self.running, "the relay runs already"
        self._let_in()
        config = self._write_configuration()
        self._runs += 1
        with self._log_file.open("wb") as log:
            if forked:
                self._process = Program(["run", "--config", config], log)
            else:
                self._process = subprocess.Popen(
                    [_PGRELAY, "run", "--config", config], stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
        return self

    def command(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another command with the relay's configuration to its end."""
        command: list[str | os.PathLike[str]] = [name, "--config", self._write_configuration(), *arguments]
        if _CAN_FORK:
            return run(command, _STOP_TIMEOUT)
        return subprocess.run(
            [_PGRELAY, *command],
            capture_output=True,
            text=True,
            timeout=_STOP_TIMEOUT,
            check=False,
        )

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask the process to stop, and return its exit code."""
        self.send(number)
        return self.wait_exit()

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None, "the relay was never started"
        self._process.send_signal(number)

    def pause(self) -> None:
        """Stop all threads of the process."""
        halt(self.pid)

    def resume(self) -> None:
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """End the process with SIGKILL, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def wait_exit(self, timeout: float = _STOP_TIMEOUT) -> int:
        """Wait for the process to end by itself; return its exit code. Raises OutOfPatience."""
        assert self._process is not None, "the relay was never started"
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise OutOfPatience(f"the relay did not end in {timeout:g} s:\n{self.log_text}") from None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the relay was never started"
        return self._process.pid

    @property
    def log_text(self) -> str:
        """The output of the last started process, stderr and stdout."""
        return self._log_file.read_text()

    @property
    def log(self) -> list[dict[str, Any]]:
        """The log's events, each with its name as `event`; other lines are left out."""
        finished = self.log_text.split("\n")[:-1]
        return [json.loads(line) for line in finished if line.startswith("{")]

    def events(self, name: str) -> list[dict[str, Any]]:
        """The events of one name that the last started process has logged."""
        return [event for event in self.log if event["event"] == name]

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of /metrics, /healthz or /readyz; status 0 if nothing answers."""
        url = f"http://{self.http_address}{path}"
        try:
            with urllib.request.urlopen(url, timeout=_ANSWER_TIMEOUT) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def metric(self, name: str) -> float:
        """The sum of a metric's values over all its labels."""
        [value] = self.metrics(name)
        return value

    def metrics(self, *names: str) -> list[float]:
        """The sums of several metrics, from one scrape."""
        lines = self.get("/metrics")[1].splitlines()
        return [
            sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))
            for name in names
        ]

    def wait_streaming(self, timeout: float = _PATIENCE) -> Self:
        """Return once the stream flows."""
        self.wait_for(lambda: self.get("/readyz")[0] == 200, "the stream to flow", timeout)
        return self

    def wait_event(self, name: str, count: int = 1, timeout: float = _PATIENCE) -> dict[str, Any]:
        """The `count`-th event of this name, once it is logged; the process may end meanwhile."""
        wait_until(lambda: len(self.events(name)) >= count, f"event {name!r} in the log", timeout)
        return self.events(name)[count - 1]

    def wait_for(self, condition: Callable[[], bool], what: str, timeout: float = _PATIENCE) -> None:
        """Wait for an effect of a running relay. Raises AssertionError, with the log, if the relay ends."""

        def true_or_ended() -> bool:
            if condition():
                return True
            assert self.running, f"waited for {what}, but the relay ended:\n{self.log_text}"
            return False

        wait_until(true_or_ended, what, timeout)

    def caught_up(self, lsn: int | None = None, timeout: float = _PATIENCE) -> None:
        """Wait until the slot's position is `lsn` or later; None: the current end of the server's WAL.

        Then Kafka has every record of every transaction that was committed before, and shows them to readers
        of committed records.
        """
        target = self.wal_end() if lsn is None else lsn
        with closing(_Asked(self.database)) as asked:
            self.wait_for(lambda: self._confirmed_lsn(asked) >= target, "the slot to move", timeout)
        if self.sections.get("sink", {}).get("delivery") == "exactly_once":
            # Not the offsets: another relay may have a transaction open there.
            names, prefix = topic_names(self.kafka.bootstrap), f"{self.prefix}."
            ours = [name for name in names if name.startswith(prefix) and name != f"{prefix}offsets"]
            await_markers(self.kafka.bootstrap, ours, timeout)

    def confirmed_lsn(self) -> int:
        """The slot's position; 0 if there is no slot or the server is down."""
        with closing(_Asked(self.database)) as asked:
            return self._confirmed_lsn(asked)

    def _confirmed_lsn(self, asked: "_Asked") -> int:
        query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
        found = asked.value(query, self.prefix)
        return parse_lsn(found) if found else 0

    def spooled(self) -> list[Path]:
        """The relay's spool files."""
        return [path for path in (self._folder / "spool").rglob("*") if path.is_file()]

    def topic(self, table: str, schema: str = "public") -> str:
        return f"{self.prefix}.{schema}.{table}"

    def records(self, table: str, count: int = 0, *, schema: str = "public") -> list[Record]:
        """The records of a table whose name needs no quoting, at least `count`: see `read_topic`."""
        return self.read(self.topic(table, schema), count)

    def ids(self, table: str, count: int = 0, *, schema: str = "public") -> list[int]:
        """The `id` in the key of each of these records, in their order, repeated ones included."""
        return [record.json_key["id"] for record in self.records(table, count, schema=schema)]

    def read(self, topic: str, count: int = 0) -> list[Record]:
        """The records of any topic: see `read_topic`."""
        return read_topic(self.kafka.bootstrap, topic, count)

    def has_topic(self, topic: str) -> bool:
        return topic in topic_names(self.kafka.bootstrap)

    def wal_end(self) -> int:
        """The end of WAL: all later commits are beyond it. The server itself may move it meanwhile."""
        with closing(_Asked(self.database)) as asked:
            end = asked.value("SELECT pg_current_wal_lsn()::text")
        assert end is not None, "the server must run"
        return parse_lsn(end)

    @property
    def _log_file(self) -> Path:
        return self._folder / f"run-{self._runs}.log"

    def _let_in(self) -> None:
        """Prepare the role, if the relay uses it. If the server is down, the relay uses the superuser."""
        source = self.sections.get("source", {})
        self._dsn = None
        if source.keys() & {"dsn", "tables"}:
            return
        try:
            self._dsn = let_in(self.database)
            if self._runs == 0 and source.get("create", True) and "publications" not in source:
                publish(self.database)
        except psycopg.OperationalError:
            pass

    def _write_configuration(self) -> Path:
        ours = {
            "source": {"dsn": self._dsn or self.database.dsn, "slot": self.prefix},
            "sink": {"kafka": {"bootstrap.servers": self.kafka.bootstrap}},
            "records": {"prefix": self.prefix},
            "transactions": {"spool_dir": str(self._folder / "spool")},
            "http": {"listen": self.http_address},
        }
        path = self._folder / "pgrelay.yaml"
        path.write_text(yaml.safe_dump(_laid_over(ours, self.sections)))
        return path


class _Asked:
    """Queries a database repeatedly over one connection: a new one would take longer than the query."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: psycopg.Connection[Any] | None = None

    def value(self, query: str, *parameters: str) -> str | None:
        """The query's value; None if there is no row or the server is down."""
        try:
            if self._connection is None:
                self._connection = self._database.connect()
            row = self._connection.execute(query.encode(), parameters).fetchone()
        except psycopg.OperationalError:
            self.close()
            return None
        return None if row is None else row[0]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge both mappings, recursively; `above` wins."""
    merged = dict(below)
    for key, value in above.items():
        inner = merged.get(key)
        if isinstance(inner, Mapping) and isinstance(value, Mapping):
            merged[key] = _laid_over(inner, value)
        else:
            merged[key] = value
    return merged
