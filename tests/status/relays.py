"""A made-up relay, with what it would report to the status page."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pgrelay.assembly.open_transaction import OpenTransaction
from pgrelay.assembly.spool import Spool
from pgrelay.assembly.spool_base import base_directory
from pgrelay.config import Config
from pgrelay.metrics import Metrics
from pgrelay.status.health import Health
from pgrelay.status.http import StatusServer
from pgrelay.status.status import Status
from pgrelay.status.troubles import Troubles
from tests.threads import threads_joined

NOW_S = 1_800_000_000.0
PASSWORD = "hunter2"

# Records a second.
_RATES = {
    "public.orders": 610,
    "public.order_lines": 1840,
    "public.customers": 42,
    "public.stock": 290,
    "public.audit": 3,
    "sales.a_table_with_a_name_that_is_longer_than_there_is_room_for": 9,
}


class Clock:
    """Unix seconds that stand still until a test sets them."""

    now_s = NOW_S

    def __call__(self) -> float:
        return self.now_s


def config(**sections: dict[str, object]) -> Config:
    """A configuration with a password everywhere where one can be."""
    given = {
        "source": {"dsn": f"postgresql://app:{PASSWORD}@db.internal/shop", "slot": "shop"},
        "sink": {
            "kafka": {
                "bootstrap.servers": "kafka-1:9092,kafka-2:9092",
                "sasl.username": "pgrelay",
                "sasl.password": PASSWORD,
            }
        },
        "records": {
            "prefix": "shop",
            "columns": {"hash": [r"public\.customers\.email"], "hash_key": PASSWORD},
        },
    }
    return Config.model_validate({**given, **sections})


@dataclass
class RelayStub:
    """What a relay shows its status from, with a clock of its own."""

    clock: Clock = field(default_factory=Clock)
    config: Config = field(default_factory=config)

    def __post_init__(self) -> None:
        self.metrics = Metrics(self.clock)
        self.health = Health(lambda: 0.0)  # never stuck, however long a test takes
        self.health.troubles = Troubles(self.clock)
        self.metrics.set_sources(
            lambda: self.health.ready, base_directory(self.config.transactions.spool_dir)
        )
        self.status = Status(self.config, self.metrics, self.health, self.clock)

    def pass_second(self, *open_transactions: OpenTransaction) -> None:
        """Let a second pass, and take a sample."""
        self.clock.now_s += 1
        self.status.sample(open_transactions)

    @contextmanager
    def served(self, port: int = 0) -> Iterator[StatusServer]:
        address = "127.0.0.1", port
        with threads_joined(), StatusServer(address, self.metrics, self.health, self.status.json) as server:
            yield server


def busy(relay: RelayStub, spool: Spool, seconds: int = 240) -> None:
    """Some minutes of a shop's day, in one of which Kafka was slow."""
    relay.health.set_streaming()
    metrics, lsn = relay.metrics, 0x2A_0000_0000
    metrics.published_tables = 7
    metrics.set_slot_wal(retained=1.4e9, safe=18.2e9)
    large, small = open_transaction(spool, 90_211, 9_000_000), open_transaction(spool, 90_377, 400_000)
    large.frames.spill()
    for second in range(seconds):
        slow = max(0.0, 40 - abs(second - seconds * 0.6)) / 40
        wave = 1 + 0.35 * math.sin(second / 9) + 0.1 * math.sin(second * 1.7)
        for table, rate in _RATES.items():
            metrics.add_records(table, "c", int(rate * wave * (1 - 0.7 * slow)))
        lsn += 640_000
        behind = int(3_000 + 48_000_000 * slow)
        metrics.set_lsns(
            server=lsn, received=lsn - behind // 3, acknowledged=lsn - behind, confirmed=lsn - behind
        )
        metrics.set_oldest_commit(int((relay.clock() - 0.004 - 9 * slow + 1) * 1e6))
        metrics.inflight_records = int(120 + 9000 * slow)
        for n in range(40):
            metrics.observe_delivery(int((relay.clock() - (0.0009 + 0.0001 * n)) * 1e6))
        metrics.transactions += 40
        metrics.spooled_bytes = spool.on_disk
        relay.pass_second(large, small)
    metrics.set_oldest_commit(int((relay.clock() - 0.004) * 1e6))
    large.frames.discard()


def open_transaction(spool: Spool, xid: int, size: int) -> OpenTransaction:
    """A transaction that holds about `size` bytes in memory."""
    transaction = OpenTransaction(xid, spool.buffer(str(xid)))
    for _ in range(size // 1000):
        transaction.frames.append(bytes(996))
    return transaction
