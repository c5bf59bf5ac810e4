"""Does memory stay flat? `python -m bench.memory --rows 30000000`: one streamed transaction of that size.

`--slow 600`: transactions of 500 rows instead, and for the first 600 s the broker is stopped and resumed many
times a second, so it accepts only a small part of what it could. The relay's RSS, its spool and the slot's
lag are sampled from outside while it drains: to bench/memory.csv and, as a chart of characters, to the
terminal. Every record is counted afterwards.
"""

import argparse
import csv
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from bench.background import in_background
from bench.contenders import relay
from bench.drain import Run, drain
from bench.procfs import memory_mb
from bench.stage import Connection, loaded, servers
from bench.topics import Topics
from bench.workloads import Workload, named

_CSV = Path(__file__).with_name("memory.csv")
_EVERY_S = 0.25
_WIDTH = 72
# A slow broker runs a thirtieth of the time.
_STOPPED_S = 0.29
_RUNNING_S = 0.01
_BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Sample:
    seconds: float
    rss_mb: float
    spool_mb: float
    lag_mb: float


class Sampler:
    """Samples one relay at most a few times a second, however often it is called."""

    def __init__(self, connection: Connection, slot: str, spool: Path) -> None:
        self.samples: list[Sample] = []
        self._connection = connection
        self._slot = slot
        self._spool = spool
        self._start = time.monotonic()
        self._due = 0.0

    def __call__(self, pid: int) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _EVERY_S
        spooled = sum(path.stat().st_size for path in self._spool.rglob("*") if path.is_file())
        self.samples.append(
            Sample(now - self._start, memory_mb(pid, "VmRSS"), spooled / 1e6, self._lag_bytes() / 1e6)
        )

    def _lag_bytes(self) -> int:
        row = self._connection.execute(
            "SELECT (pg_current_wal_lsn() - confirmed_flush_lsn)::bigint FROM pg_replication_slots "
            "WHERE slot_name = %s",
            [self._slot],
        ).fetchone()
        return int(str(row[0])) if row else 0


def spark(values: Sequence[float]) -> str:
    """A line of bars from 0 to the largest value; a bar of several values shows their maximum."""
    size = max(1, -(-len(values) // _WIDTH))
    bars = [max(values[start : start + size]) for start in range(0, len(values), size)]
    most = max(bars, default=0.0) or 1.0
    return "".join(_BARS[round(bar / most * (len(_BARS) - 1))] for bar in bars)


@contextmanager
def slowed(pid: int, seconds: float) -> Iterator[None]:
    """Let a process run only a small part of the time, for `seconds`, or as long as the block."""

    def pace(over: threading.Event) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not over.is_set():
            os.kill(pid, signal.SIGSTOP)
            over.wait(_STOPPED_S)
            os.kill(pid, signal.SIGCONT)
            over.wait(_RUNNING_S)

    with in_background(pace):
        yield


def run(workload: Workload, slow_s: float) -> tuple[Run, list[Sample]]:
    contender = relay("compiled")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pgrelay-bench-")))
        stage = stack.enter_context(servers(folder))
        load = stack.enter_context(loaded(stage, workload))
        topics = stack.enter_context(Topics(stage.bootstrap, contender.prefix, workload.tables))
        connection = stack.enter_context(psycopg.connect(load.dsn, autocommit=True))
        shape = f"{workload.name}, a slow broker for {slow_s:.0f} s" if slow_s else "in one transaction"
        print(f"{workload.rows:,} rows {shape}, {load.wal_bytes / 1e6:,.0f} MB of WAL", flush=True)
        stack.enter_context(slowed(stage.broker_pid, slow_s))
        sampler = Sampler(connection, contender.prefix, folder / "spool")
        return drain(stage, load, contender, topics, sampler), sampler.samples


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="(%(default)s)")
    parser.add_argument("--slow", type=float, default=0, metavar="SECONDS", help="of a slow broker (none)")
    options = parser.parse_args()
    workload = replace(named("insert" if options.slow else "streamed"), rows=options.rows)
    done, samples = run(workload, options.slow)
    if done.void:
        print(f"VOID: {done.void}")
        return 1
    with _CSV.open("w") as file:
        writer = csv.writer(file)
        writer.writerow(Sample.__slots__)
        writer.writerows([f"{getattr(it, name):.3f}" for name in Sample.__slots__] for it in samples)
    for name in ("rss_mb", "spool_mb", "lag_mb"):
        values = [getattr(sample, name) for sample in samples]
        print(f"{name:<9}{max(values, default=0):>9,.0f} at most  {spark(values)}")
    cpu = done.cpu_s["contender"] / done.rows * 1e6
    print(f"{done.seconds:.1f} s, {done.rows / done.seconds:,.0f} rows/s, relay {cpu:.2f} us of CPU a row")
    print(f"peak RSS {done.peak_mb['contender']:.0f} MB; {done.records:,} records, each row once; {_CSV}")
    print(f"load average {done.load_before:.1f}; others used {done.others_cores:.2f} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
