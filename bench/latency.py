"""Latency from a commit to its record: 500 one-row commits a second, alone and beside a large transaction.

Each commit's clock starts when COMMIT has returned to its client and stops when a consumer has the record;
the relay's own histogram counts from the commit's time in the WAL to the broker's acknowledgement. The
longest time without a status update shows whether keepalives were answered throughout.
"""

import argparse
import re
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import quantiles

import psycopg
from confluent_kafka import Consumer, TopicPartition

from bench.background import in_background
from bench.contenders import relay
from bench.drain import streaming
from bench.stage import Load, Stage, flushing, loaded, servers
from bench.topics import Topics
from bench.workloads import Workload
from pgrelay.embedded.ports import free_port

_IDLE = Workload(
    "latency",
    "nothing: the commits come later",
    500,
    "NULL;",
    "CREATE TABLE small (id bigint PRIMARY KEY, note text); "
    "CREATE TABLE large (id bigint PRIMARY KEY, note text)",
    tables=("small", "large"),
)
_LARGE = "INSERT INTO large SELECT i, 'one of the large transaction: ' || i FROM generate_series(1, {}) AS i"
_WARM_UP_S = 1.0
_CATCH_UP_S = 60.0


@contextmanager
def arriving(bootstrap: str, topic: str) -> Iterator[dict[int, float]]:
    """When each row's record arrived, by id: consumed in a thread during the block."""
    at: dict[int, float] = {}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "latency"})

    def consume(over: threading.Event) -> None:
        while not over.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                now = time.monotonic()
                at[int(re.findall(rb"-?\d+", message.key() or b"0")[0])] = now

    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        with in_background(consume):
            yield at
    finally:
        consumer.close()


def commit(dsn: str, ids: range, rate: float) -> dict[int, float]:
    """Commit `rate` rows a second; return when each commit returned, by id."""
    returned: dict[int, float] = {}
    with flushing(dsn) as connection:
        start = time.monotonic()
        for number, row in enumerate(ids):
            time.sleep(max(0.0, start + number / rate - time.monotonic()))
            connection.execute("INSERT INTO small VALUES (%s, 'one of many')", [row], prepare=True)
            returned[row] = time.monotonic()
    return returned


def insert_large(dsn: str, rows: int) -> None:
    """Commit a large transaction, unless `rows` is 0."""
    if rows:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(_LARGE.format(rows).encode())


class Silence:
    """The longest time without a status update, by the server's account: work for `in_background`."""

    def __init__(self, dsn: str) -> None:
        self.longest_s = 0.0
        self._dsn = dsn

    def __call__(self, over: threading.Event) -> None:
        query = "SELECT extract(epoch FROM clock_timestamp() - reply_time) FROM pg_stat_replication"
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while not over.wait(0.1):
                ages = [float(str(age)) for (age,) in connection.execute(query.encode()) if age is not None]
                self.longest_s = max(self.longest_s, *ages, 0.0)


def measure(stage: Stage, load: Load, delivery: str, rate: int, seconds: int, large_rows: int) -> bool:
    """Print one line of figures; return False if a record is missing."""
    listen = f"127.0.0.1:{free_port()}"
    contender = relay("compiled", sections={"http": {"listen": listen}, "sink": {"delivery": delivery}})
    ids = range(1, rate * seconds + 1)
    with ExitStack() as stack:
        topics = stack.enter_context(Topics(stage.bootstrap, contender.prefix, _IDLE.tables))
        topics.mark()
        stack.enter_context(streaming(stage, load, contender))
        arrived = stack.enter_context(arriving(stage.bootstrap, f"{contender.prefix}.public.small"))
        silence = Silence(load.dsn)
        stack.enter_context(in_background(silence))
        commit(load.dsn, range(-round(rate * _WARM_UP_S), 0), rate)
        with in_background(lambda _: insert_large(load.dsn, large_rows)):
            returned = commit(load.dsn, ids, rate)
        deadline = time.monotonic() + _CATCH_UP_S
        while len(arrived.keys() & returned.keys()) < len(ids) and time.monotonic() < deadline:
            time.sleep(0.05)
        histogram = _histogram(listen)
    delays = [(arrived[row] - returned[row]) * 1000 for row in ids if row in arrived]
    _print(f"beside {large_rows:,} rows" if large_rows else "alone", delays, silence.longest_s, histogram)
    return len(delays) == len(ids)


def _histogram(listen: str) -> str:
    """The share of transactions in each non-empty bucket."""
    with urllib.request.urlopen(f"http://{listen}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = re.findall(r'pgrelay_delivery_latency_seconds_bucket\{le="([^"]+)"\} ([\d.]+)', text)
    total = float(found[-1][1]) or 1.0
    shares = [(float(bound) * 1000, float(count) / total) for bound, count in found]
    full = next(index for index, (_, share) in enumerate(shares) if share >= 1)
    return ", ".join(f"{share:.1%} in {bound:g} ms" for bound, share in shares[: full + 1])


def _print(label: str, delays: list[float], silence_s: float, histogram: str) -> None:
    # By the default method, few delays would have quantiles above the longest.
    cuts = quantiles(delays, n=1000, method="inclusive")
    print(
        f"{label:<22} p50 {cuts[499]:.1f} ms, p99 {cuts[989]:.1f}, p99.9 {cuts[998]:.1f}, "
        f"most {max(delays):.1f}; {len(delays):,} records; longest without a status update {silence_s:.1f} s"
    )
    print(f"{'':<22} by the relay: {histogram}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.latency", description=__doc__)
    deliveries = ("at_least_once", "exactly_once")
    parser.add_argument("--delivery", default=deliveries[0], choices=deliveries, help="(%(default)s)")
    parser.add_argument("--rate", type=int, default=500, help="commits a second (%(default)s)")
    parser.add_argument("--seconds", type=int, default=20, help="(%(default)s)")
    parser.add_argument("--large", type=int, default=500_000, help="rows of the large one (%(default)s)")
    options = parser.parse_args()
    complete = True
    with tempfile.TemporaryDirectory(prefix="pgrelay-bench-") as folder, servers(Path(folder)) as stage:
        for large_rows in (0, options.large):
            with loaded(stage, _IDLE) as load:
                complete = (
                    measure(stage, load, options.delivery, options.rate, options.seconds, large_rows)
                    and complete
                )
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
