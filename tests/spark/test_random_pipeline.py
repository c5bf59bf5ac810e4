"""Rows and columns change at random, and relay and mirror are cut off at random: the lake equals the tables.

A seed chooses how records are written and where they go, too. PGRELAY_TEST_SEED repeats the first one's
choices; what the mirror has reached when it is cut off is up to the machine.
"""

import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pgrelay import spark as pg
from pgrelay.embedded.registry import SchemaRegistry
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.relays import Relay
from tests.long import long
from tests.spark.random_columns import RandomColumns
from tests.spark.tables import CREATE, TABLES, Workload, in_lake, in_postgres

SEED = int(os.environ.get("PGRELAY_TEST_SEED", "0")) or random.randrange(1, 1 << 32)
CUTS = 5
KEYED = ("orders", "lines")


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    """It accepts all schemas: a column may get the name of another one, with another type."""
    with SchemaRegistry(compatibility=None) as registry:
        yield registry


class RandomMirror:
    """A mirror, or a history, of the tables of a relay, and that relay; the seed chooses their settings."""

    def __init__(self, seed: int, registry: SchemaRegistry) -> None:
        chosen = random.Random(seed)
        self.history = chosen.random() < 0.25
        self.whole = not self.history and chosen.random() < 0.4
        self.using: Any = chosen.choice(["delta", "iceberg"])
        self.registry = registry.url if chosen.random() < 0.5 else None
        self.placeholder = chosen.random() < 0.3
        self.flat = chosen.random() < 0.4
        self.tables = KEYED if self.history or self.flat else TABLES
        self.sink = {
            "partitions": chosen.choice([1, 1, 3]),
            "delivery": chosen.choice(["at_least_once", "exactly_once"]),
        }

    def records(self) -> dict[str, Any]:
        """The relay's section `records`."""
        avro = {"format": "avro", "schema_registry": {"url": self.registry}}
        return {
            "envelope": "flat" if self.flat else "debezium",
            "unchanged": "placeholder" if self.placeholder else "omit",
            "transaction_topic": self.whole,
            **(avro if self.registry else {}),
        }

    def start(self, spark: SparkSession, relay: Relay, checkpoint: Path, **trigger: Any) -> StreamingQuery:
        given: dict[str, Any] = {} if self.history else {"whole_transactions": self.whole}
        # A batch that is cut in the midst of a topic may meet a delete before the create: see docs/spark.md.
        few = {"maxOffsetsPerTrigger": "300"} if self.sink["partitions"] == 1 or self.whole else {}
        return (pg.history if self.history else pg.mirror)(
            spark,
            relay.kafka.bootstrap,
            {relay.topic(table): self.target(relay, table) for table in self.tables},
            prefix=relay.prefix,
            checkpoint=checkpoint,
            using=self.using,
            registry=self.registry,
            placeholder=self.placeholder or None,
            options={} if "availableNow" in trigger else few,
            trigger=trigger,
            **given,
        )

    def target(self, relay: Relay, table: str) -> str:
        catalog = "" if self.using == "delta" else "iceberg."
        return f"{catalog}lake.{relay.prefix}_{table}"


@long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(4))
def test_the_lake_equals_postgres_after_random_changes_and_cuts(
    spark: SparkSession,
    new_relay: NewRelay,
    database: Database,
    registry: SchemaRegistry,
    tmp_path: Path,
    number: int,
) -> None:
    seed = SEED + number
    mirror = RandomMirror(seed, registry)
    print(f"PGRELAY_TEST_SEED={seed}", vars(mirror))
    database.execute(CREATE)
    relay = new_relay(records=mirror.records(), sink=mirror.sink).start().wait_streaming()
    columns = RandomColumns(database, seed)
    cuts = random.Random(seed)
    with _changes(relay, Workload(database, seed), columns, seed):
        for _ in range(CUTS):
            query = mirror.start(spark, relay, tmp_path / "checkpoint", processingTime="0 seconds")
            query.awaitTermination(cuts.randint(1, 12))
            query.stop()
    relay.caught_up()
    mirror.start(spark, relay, tmp_path / "checkpoint", availableNow=True).awaitTermination()
    for table in mirror.tables:
        names, expected = in_postgres(database, table)
        frame = spark.table(mirror.target(relay, table))
        now = frame.where("__valid_to IS NULL") if mirror.history else frame
        assert in_lake(now, names) == expected, "\n".join([table, *columns.statements])
        assert mirror.history or set(frame.columns) == {*names, "__commit_lsn", "__seq"}


@contextmanager
def _changes(relay: Relay, workload: Workload, columns: RandomColumns, seed: int) -> Iterator[None]:
    """Change rows and columns, and kill the relay now and then, during the block."""
    rng = random.Random(seed)
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(rng.uniform(0.2, 1)):
            workload.run(rng.randint(1, 3))
            columns.change()
            if rng.random() < 0.05:
                relay.kill()
                relay.start()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        try:
            yield
        finally:
            stop.set()
        running.result()
