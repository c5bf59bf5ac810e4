"""One run: one contender drains one load, with its time and CPU measured and its records counted."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from bench.contenders import Contender, Job
from bench.procfs import Meter
from bench.stage import Connection, Load, Stage, slot_copy
from bench.topics import Topics
from pgrelay.embedded.daemon import log_tail

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 60.0
_CONFIRM_TIMEOUT_S = 120.0
_LOOK_EVERY_S = 0.01

# Called with the contender's process id at each check whether it is done.
Watch = Callable[[int], None]


class Void(Exception):
    """The run is void: the contender ended, took too long, or delivered the wrong records."""


@dataclass(frozen=True, slots=True)
class Run:
    """Load averages are over one minute; `others_cores` is how many cores the rest of the machine used."""

    contender: str
    workload: str
    rows: int
    seconds: float
    cpu_s: dict[str, float]
    peak_mb: dict[str, float]
    others_cores: float
    load_before: float
    load_after: float
    records: int = 0
    void: str = ""


@dataclass(frozen=True, slots=True)
class Timed:
    """The time and the CPU between start and end."""

    seconds: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)
    peak_mb: dict[str, float] = field(default_factory=dict)
    others_s: float = 0.0


def drain(
    stage: Stage, load: Load, contender: Contender, topics: Topics | None, watch: Watch | None = None
) -> Run:
    """Run one contender over the load; a failed run is returned as void.

    `topics` None: the contender discards the rows.
    """
    before = os.getloadavg()[0]
    timed = Timed()
    records, void = 0, ""
    if topics is not None:
        topics.mark()
    try:
        with (
            psycopg.connect(load.dsn, autocommit=True) as connection,
            slot_copy(connection, contender.prefix) as slot,
            running(contender, job_of(stage, load, contender, slot)) as process,
        ):
            timed = _time(_Race(stage, load, contender, topics, connection, process), watch)
        if topics is not None:
            records = _verified(load, topics)
    except Void as reason:
        void = str(reason)
    return Run(
        contender.name,
        load.workload.name,
        load.workload.rows,
        timed.seconds,
        timed.cpu_s,
        timed.peak_mb,
        timed.others_s / timed.seconds if timed.seconds else 0.0,
        before,
        os.getloadavg()[0],
        records,
        void,
    )


def job_of(stage: Stage, load: Load, contender: Contender, slot: str) -> Job:
    return Job(
        stage.postgres.bin,
        stage.postgres.port,
        load.database,
        load.dsn,
        slot,
        load.target,
        stage.bootstrap,
        contender.prefix,
        stage.folder,
    )


@contextmanager
def running(contender: Contender, job: Job) -> Iterator[subprocess.Popen[bytes]]:
    command = contender.command(job)
    with _log_file(job.folder, contender).open("wb") as log:
        process = subprocess.Popen(
            command.arguments,
            env=command.environment,
            cwd=job.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def streaming(stage: Stage, load: Load, contender: Contender) -> Iterator[subprocess.Popen[bytes]]:
    """Run a relay for the block, from when it streams."""
    with (
        psycopg.connect(load.dsn, autocommit=True) as connection,
        slot_copy(connection, contender.prefix) as slot,
        running(contender, job_of(stage, load, contender, slot)) as process,
    ):
        query = "SELECT FROM pg_replication_slots WHERE active"
        while connection.execute(query.encode()).fetchone() is None:
            if process.poll() is not None:
                raise Void(f"it ended:\n{log_tail(_log_file(stage.folder, contender))}")
            time.sleep(0.05)
        yield process


def wait_confirmed(connection: Connection, slot: str, process: subprocess.Popen[bytes]) -> None:
    """Return once a relay has confirmed all that was written so far. Raises Void."""
    end = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
    assert end is not None
    query = (
        "SELECT active AND confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
    )
    deadline = time.monotonic() + _CONFIRM_TIMEOUT_S
    while connection.execute(query, [*end, slot]).fetchone() != (True,):
        if process.poll() is not None:
            raise Void(f"the relay ended with exit code {process.returncode}")
        if time.monotonic() > deadline:
            raise Void(f"{end[0]} was not confirmed within {_CONFIRM_TIMEOUT_S:g} s")
        time.sleep(0.02)


def _log_file(folder: Path, contender: Contender) -> Path:
    return folder / f"{contender.prefix}.log"


class _Race:
    """The contender's progress: what the server reports about its slot, and the broker about its topics."""

    def __init__(
        self,
        stage: Stage,
        load: Load,
        contender: Contender,
        topics: Topics | None,
        connection: Connection,
        process: subprocess.Popen[bytes],
    ) -> None:
        self.broker_pid = stage.broker_pid
        self.process = process
        self._contender = contender
        self._topics = topics
        self._connection = connection
        self._target = load.target
        self._expected = load.workload.rows * load.workload.records_a_row
        self._log = _log_file(stage.folder, contender)
        # Ten times as long as the slowest peer needs.
        self.timeout_s = 60 + load.workload.rows / 1000

    def await_start(self) -> int:
        """Wait for the slot's walsender, and return its process id."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while (pid := self._look()[0]) is None:
            self.check(deadline)
            time.sleep(0.002)
        return pid

    def done(self) -> bool:
        if self._topics is None or self._contender.confirms:
            return self._look()[1]
        return self._topics.arrived() >= self._expected

    def _look(self) -> tuple[int | None, bool]:
        row = self._connection.execute(
            "SELECT active_pid, confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots "
            "WHERE slot_name = %s",
            [self._target, self._contender.prefix],
        ).fetchone()
        assert row is not None
        pid, confirmed = row
        return (None if pid is None else int(str(pid))), bool(confirmed)

    def check(self, deadline: float) -> None:
        """Raises Void if the run can't succeed any more."""
        if self.process.poll() is not None and not self._look()[1]:
            raise Void(f"it ended with exit code {self.process.returncode}:\n{log_tail(self._log)}")
        if time.monotonic() > deadline:
            raise Void(f"it was not done in time:\n{log_tail(self._log)}")


def _time(race: _Race, watch: Watch | None) -> Timed:
    walsender = race.await_start()
    start = time.monotonic()
    meter = Meter(
        {
            "walsender": walsender,
            "contender": race.process.pid,
            "broker": race.broker_pid,
            "bench": os.getpid(),
        }
    )
    while not race.done():
        if watch is not None:
            watch(race.process.pid)
        race.check(start + race.timeout_s)
        meter.read()
        time.sleep(_LOOK_EVERY_S)
    seconds = time.monotonic() - start
    meter.read()
    return Timed(seconds, meter.cpu_s, meter.peak_mb, meter.others_s)


def _verified(load: Load, topics: Topics) -> int:
    """The number of records. Raises Void unless the topics have exactly the records of each row."""
    expected = load.workload.rows * load.workload.records_a_row
    records, keys = topics.read()
    if (records, keys) != (expected, load.workload.rows):
        raise Void(f"{records:,} records under {keys:,} keys, not {expected:,} under {load.workload.rows:,}")
    return records
