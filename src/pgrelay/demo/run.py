"""The demo, from its first server to its last line."""

import io
import os
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import psycopg
from confluent_kafka import KafkaException

from pgrelay.demo.fold import Comparison, compare
from pgrelay.demo.lake import Lake
from pgrelay.demo.relay_process import PREFIX, SLOT, RelayProcess
from pgrelay.demo.screen import Screen
from pgrelay.demo.servers import Servers, Stopped
from pgrelay.demo.shop import SCHEMA, TABLES, transactions
from pgrelay.demo.show import Show
from pgrelay.demo.slot import Slot
from pgrelay.demo.summary import Outcome, summary
from pgrelay.demo.topics import Topics
from pgrelay.demo.view import legend
from pgrelay.demo.workload import Workload
from pgrelay.embedded.daemon import ServerFailed, log_tail
from pgrelay.embedded.kafka import Kafka
from pgrelay.embedded.kafka_jars import KAFKA_VERSION
from pgrelay.embedded.postgres import Postgres
from pgrelay.errors import PgrelayError
from pgrelay.postgres.errors import one_line

_SEED: Final = 1
_PAUSE_S: Final = 0.35
_ALL_ROWS_S: Final = 15.0  # with --rows: about this long divided by the rows of a transaction

_LAST_RECORDS_TIMEOUT_S: Final = 20.0
_LAKE_START_TIMEOUT_S: Final = 180.0
_LAKE_LAST_TIMEOUT_S: Final = 90.0


def demo(rows: int | None, keep: bool, spark: bool = False) -> int:
    """Run the demo on stdout until `rows` changes were shown, or SIGINT or SIGTERM; return the exit code.

    That is 128 plus the signal's number if it came before `rows` were written. With `keep` the servers keep
    running; with `spark` a lake mirrors the tables, and is compared with them too. Raises Unavailable if a
    part of the servers is not available, and ServerFailed if a server or the relay does not start or ends too
    soon.
    """
    _clear_environment()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    stop = threading.Event()
    folder = Path(tempfile.mkdtemp(prefix="pgrelay-demo-"))
    folder.chmod(0o755)  # under root, Postgres runs as another account and has to reach its data in there
    servers = Servers(folder if keep else None, stop)
    try:
        with _stop_on_signals(stop) as signals, Screen(sys.stdout) as screen:
            demo_run = _Demo(screen, servers, folder, stop, spark)
            code = demo_run.run(rows, keep)
            completed = demo_run.completed
    except Stopped:
        code, completed = 0, False
    except (psycopg.Error, KafkaException) as error:
        raise PgrelayError(f"the demo lost a server: {one_line(error)}") from error
    finally:
        if not servers.kept:
            shutil.rmtree(folder)
    return code or (0 if completed or rows is None else 128 + signals[0])


def _clear_environment() -> None:
    """Unset PG* variables: libpq's may lead to another server, and PGRELAY_* would change the relay."""
    for name in [name for name in os.environ if name.startswith("PG")]:
        del os.environ[name]


@contextmanager
def _stop_on_signals(stop: threading.Event) -> Iterator[list[int]]:
    """Set `stop` at the first signal, and raise KeyboardInterrupt at the second; ignore more signals.

    Yields the numbers of the signals received so far.
    """
    received: list[int] = []

    def on_signal(number: int, frame: object) -> None:
        received.append(number)
        stop.set()
        if len(received) == 2:
            raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield received
    finally:
        for number, action in before.items():
            signal.signal(number, action)


class _Demo:
    """`completed`: the workload ended by itself."""

    def __init__(
        self, screen: Screen, servers: Servers, folder: Path, stop: threading.Event, spark: bool
    ) -> None:
        self._screen = screen
        self._servers = servers
        self._folder = folder
        self._stop = stop
        self._spark = spark
        self._began = time.monotonic()
        self.completed = False

    def run(self, rows: int | None, keep: bool) -> int:
        version = self._servers.postgres.version
        title = f"A shop on Postgres {version}, relayed to Kafka {KAFKA_VERSION}. Ctrl-C ends it."
        self._screen.say(title, "bold")
        with self._servers.running(_StartProgress(self._screen, self._servers, self._stop)):
            dsn = self._servers.postgres.create_database("shop")
            with Slot(dsn, SLOT) as slot:
                slot.connection.execute(SCHEMA)
                outcome = self._relay(rows, dsn, slot)
            self._screen.show(summary(outcome))
            if keep:
                self._servers.kept = True
                self._print_connections(dsn)
        return 0 if outcome.succeeded else 1

    def _relay(self, rows: int | None, dsn: str, slot: Slot) -> Outcome:
        def streaming() -> bool:
            if self._stop.is_set():
                raise Stopped
            return slot.active()

        bootstrap = self._servers.kafka.bootstrap
        with RelayProcess(self._folder, dsn, bootstrap, streaming) as relay, ExitStack() as stack:
            self._print_addresses(dsn, relay)
            lake = stack.enter_context(self._lake(bootstrap)) if self._spark else None
            pause_s = _PAUSE_S if rows is None else min(_PAUSE_S, _ALL_ROWS_S / rows)
            with (
                Topics(bootstrap, PREFIX) as topics,
                Workload(dsn, transactions(_SEED, rows), pause_s) as workload,
            ):
                show = Show(
                    self._screen, topics, slot, workload, lambda: self._check_servers(relay, lake), lake
                )
                self._watch(show, slot, topics, workload)
                if lake is not None:
                    self._watch_lake(show, lake)
                return self._outcome(show, slot, relay, lake)

    @contextmanager
    def _lake(self, bootstrap: str) -> Iterator[Lake]:
        """Start the lake, and wait until its mirror runs."""
        began = time.monotonic()
        with Lake(self._folder, bootstrap, PREFIX) as lake:
            while not lake.started:
                elapsed_s = time.monotonic() - began
                self._screen.set_status([("dim", f"Spark is starting … {elapsed_s:.0f} s")])
                if self._stop.wait(0.1):
                    raise Stopped
                if not lake.running or elapsed_s > _LAKE_START_TIMEOUT_S:
                    raise ServerFailed(f"Spark did not start; the end of its log:\n{log_tail(lake.log)}")
            self._screen.say(f"Spark      a Delta table for each topic, after {elapsed_s:.1f} s\n")
            yield lake

    def _watch_lake(self, show: Show, lake: Lake) -> None:
        """Run until the lake has everything too."""
        if not show.run_until(lake.is_caught_up, timeout_s=_LAKE_LAST_TIMEOUT_S):
            raise ServerFailed(
                f"the last changes did not reach the lake; the end of its log:\n{log_tail(lake.log)}"
            )

    def _watch(self, show: Show, slot: Slot, topics: Topics, workload: Workload) -> None:
        """Run until the workload ends or is stopped, and then until its last record has arrived."""
        show.run_until(lambda: self._stop.is_set() or not workload.running)
        self.completed = not workload.running
        workload.stop()
        show.run_until(lambda: not workload.running)
        end = slot.wal_end()
        arrived = show.run_until(
            lambda: slot.confirmed() >= end and topics.at_end(), timeout_s=_LAST_RECORDS_TIMEOUT_S
        )
        show.end()
        if not arrived:
            log = log_tail(self._folder / "relay.log")
            raise ServerFailed(f"the last records did not arrive; the end of the relay's log:\n{log}")

    def _outcome(self, show: Show, slot: Slot, relay: RelayProcess, lake: Lake | None) -> Outcome:
        connection = slot.connection
        in_lake: list[Comparison] = []
        if lake is not None:
            content = lake.content()
            in_lake = [compare(connection, content.get(table, []), table) for table in TABLES]
        return Outcome(
            show.tally,
            [compare(connection, show.fold.rows(table), table) for table in TABLES],
            slot.streamed(),
            show.feed.shown,
            time.monotonic() - self._began,
            relay.stop(),
            in_lake,
            lake.lag_summary() if lake is not None else "",
        )

    def _check_servers(self, relay: RelayProcess, lake: Lake | None) -> None:
        servers: dict[str, Postgres | Kafka | RelayProcess | Lake]
        servers = {"Postgres": self._servers.postgres, "Kafka": self._servers.kafka, "the relay": relay}
        if lake is not None:
            servers["the lake"] = lake
        for name, server in servers.items():
            if not server.running:
                raise ServerFailed(f"{name} has ended; the end of its log:\n{log_tail(server.log)}")

    def _print_addresses(self, dsn: str, relay: RelayProcess) -> None:
        say = self._screen.say
        say(f"Postgres   {dsn}")
        say(f"Kafka      {self._servers.kafka.bootstrap}, topics {PREFIX}.public.*")
        say(f"pgrelay    streaming after {time.monotonic() - self._began:.1f} s; http://{relay.http}/metrics")
        self._screen.show([[], legend(), []])

    def _print_connections(self, dsn: str) -> None:
        postgres, kafka, say = self._servers.postgres, self._servers.kafka, self._screen.say
        psql = shlex.quote(shutil.which("psql") or str(postgres.bin / "psql"))
        program = shutil.which("pgrelay") or f"{shlex.quote(sys.executable)} -m pgrelay"
        folder = shlex.quote(str(self._folder))
        say()
        say("Both servers keep running.", "bold")
        say(f"Postgres   {psql} {dsn}")
        say(f"Kafka      bootstrap.servers={kafka.bootstrap}")
        say(f"go on      {program} run --config {folder}/pgrelay.yaml")
        say(f"stop both  kill -QUIT {postgres.pid}; kill -KILL {kafka.pid}; sleep 1; rm -rf {folder}")


class _StartProgress:
    """Shows the progress of the servers' start."""

    def __init__(self, screen: Screen, servers: Servers, stop: threading.Event) -> None:
        self._screen = screen
        self._downloads = servers.downloads
        self._stop = stop
        self._reported = 0
        self._began = time.monotonic()

    def __call__(self) -> None:
        names = self._downloads.names()
        if self._stop.is_set():
            text = "stopping as soon as the pending steps end …"
        elif names:
            text = f"fetching Kafka, only this once: {self._downloads}, {names[-1]}"
        else:
            text = f"both servers are starting … {time.monotonic() - self._began:.0f} s"
        self._screen.set_status([("dim", text)])
        if not self._screen.live:
            for name in names[self._reported :]:
                self._screen.say(f"fetching {name}")
            self._reported = len(names)
