"""What a relay with little to do costs: `python -m bench.idle`.

Each line is a relay of its own, after one row in each of its tables. Wake-ups are the voluntary context
switches of its threads, which they make as they begin to wait. Unless it is not watched, /metrics or /readyz
is asked every 5 s, /metrics each third time. Postgres is the relay's two backends.
"""

import argparse
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.background import in_background
from bench.contenders import relay
from bench.drain import streaming, wait_confirmed
from bench.procfs import Meter, memory_mb, wakeups
from bench.stage import Connection, Stage, flushing, loaded, servers
from bench.topics import Topics
from bench.workloads import Workload
from pgrelay.embedded.ports import free_port

_SETTLE_S: Final = 5.0
_PROBE_EVERY_S: Final = 5.0
_PROBES_A_SCRAPE: Final = 3

_ROWS: Final = (
    "DO $$ BEGIN FOR n IN 1..{} LOOP EXECUTE format('INSERT INTO t%s VALUES (0)', n); COMMIT; "
    "END LOOP; END $$"
)
# The oldest of each kind: at its start a relay has others, for its check.
_BACKENDS: Final = (
    "SELECT pid, backend_type FROM pg_stat_activity WHERE application_name = 'pgrelay' "
    "ORDER BY backend_start DESC"
)


@dataclass(frozen=True, slots=True)
class Situation:
    """`commits_s`: of one row each, a second; `elsewhere`: in another database of the server."""

    tables: int = 1
    commits_s: float = 0.0
    elsewhere: bool = False
    watched: bool = True
    delivery: str = "at_least_once"

    def __str__(self) -> str:
        parts = [f"{self.tables:,} table{'s' * (self.tables > 1)}"]
        if self.commits_s:
            rate = f"{self.commits_s:g} commit{'s' * (self.commits_s > 1)}/s"
            parts.append(rate + " elsewhere" * self.elsewhere)
        if not self.watched:
            parts.append("not watched")
        if self.delivery == "exactly_once":
            parts.append("exactly once")
        return ", ".join(parts)


SITUATIONS: Final = (
    Situation(watched=False),
    Situation(),
    Situation(100),
    Situation(1000),
    Situation(commits_s=10, elsewhere=True),
    Situation(commits_s=1),
    Situation(commits_s=10),
    Situation(delivery="exactly_once"),
    Situation(commits_s=10, elsewhere=True, delivery="exactly_once"),
    Situation(commits_s=1, delivery="exactly_once"),
    Situation(commits_s=10, delivery="exactly_once"),
)


def periodically(action: Callable[[], None], interval_s: float) -> Callable[[threading.Event], None]:
    """Work for `in_background`: take the action once per interval."""

    def work(over: threading.Event) -> None:
        due = time.monotonic()
        while not over.wait(max(0.0, due - time.monotonic())):
            action()
            due += interval_s

    return work


class Prober:
    """What Kubernetes and Prometheus ask."""

    def __init__(self, listen: str) -> None:
        self._listen = listen
        self._asked = 0

    def __call__(self) -> None:
        path = "readyz" if self._asked % _PROBES_A_SCRAPE else "metrics"
        self._asked += 1
        with urllib.request.urlopen(f"http://{self._listen}/{path}", timeout=10) as answer:
            answer.read()


class Writer:
    """Commits one row at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._row = 0

    def __call__(self) -> None:
        self._row += 1
        self._connection.execute("INSERT INTO t1 VALUES (%s)", [self._row], prepare=True)


def measure(stage: Stage, situation: Situation, seconds: float) -> None:
    """Print one line of figures."""
    listen = f"127.0.0.1:{free_port()}"
    sections = {"http": {"listen": listen}, "sink": {"delivery": situation.delivery}}
    contender = relay("compiled", sections=sections)
    names = tuple(f"t{number + 1}" for number in range(situation.tables))
    setup = "; ".join(f"CREATE TABLE {name} (id bigint PRIMARY KEY, note text)" for name in names)
    workload = Workload("idle", str(situation), 1, "NULL;", setup, tables=names)
    with ExitStack() as stack:
        load = stack.enter_context(loaded(stage, workload))
        topics = stack.enter_context(Topics(stage.bootstrap, contender.prefix, names))
        topics.mark()
        connection = stack.enter_context(flushing(load.dsn))
        process = stack.enter_context(streaming(stage, load, contender))
        connection.execute(_ROWS.format(situation.tables).encode())
        wait_confirmed(connection, contender.prefix, process)
        backends = {
            str(kind): int(str(pid)) for pid, kind in connection.execute(_BACKENDS.encode()).fetchall()
        }
        if situation.watched:
            stack.enter_context(in_background(periodically(Prober(listen), _PROBE_EVERY_S)))
        if situation.commits_s:
            writer = stack.enter_context(flushing(stage.postgres.dsn if situation.elsewhere else load.dsn))
            writer.execute("CREATE TABLE IF NOT EXISTS t1 (id bigint PRIMARY KEY, note text)")
            writer.execute("DELETE FROM t1")
            stack.enter_context(in_background(periodically(Writer(writer), 1 / situation.commits_s)))
        time.sleep(_SETTLE_S)
        print(f"{situation!s:<46}", _figures(process.pid, backends, stage.broker_pid, seconds), flush=True)


def _figures(relay_pid: int, backends: Mapping[str, int], broker_pid: int, seconds: float) -> str:
    """The relay's CPU, wake-ups and memory, then the CPU of its backends, and of the broker."""
    meter = Meter({**backends, "relay": relay_pid, "broker": broker_pid})
    began, woken = time.monotonic(), wakeups(relay_pid)
    time.sleep(seconds)
    meter.read()
    lasted_s = time.monotonic() - began
    woke = (wakeups(relay_pid) - woken) / lasted_s
    spent = {name: cpu_s / lasted_s * 1000 for name, cpu_s in meter.cpu_s.items()}
    server = sum(spent[kind] for kind in backends)
    rss_mb = memory_mb(relay_pid, "VmRSS")
    return f"{spent['relay']:>6.1f}{woke:>9.1f}{rss_mb:>8.0f}{server:>10.1f}{spent['broker']:>8.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.idle", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for each line (%(default)s)")
    options = parser.parse_args()
    print(f"{'CPU in ms a second':<46} relay  wakes/s  RSS MB  Postgres  broker")
    with tempfile.TemporaryDirectory(prefix="pgrelay-bench-") as folder, servers(Path(folder)) as stage:
        for situation in SITUATIONS:
            measure(stage, situation, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
