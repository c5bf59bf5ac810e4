"""Rows and columns change at random, and relay and mirror end at random: the lake equals the tables.

A seed chooses how records are written and where they go, too. PGRELAY_TEST_SEED repeats the first one's
choices; what the mirror has reached when it ends is up to the machine.
"""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pgrelay.embedded.registry import SchemaRegistry
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.long import long
from tests.seeds import SEED
from tests.spark.mirror_runs import MirrorRuns
from tests.spark.random_columns import RandomColumns
from tests.spark.random_mirror import RandomMirror
from tests.spark.tables import CREATE, Workload, in_lake, in_postgres, mirrored

ENDS = 5


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    """It accepts all schemas: a column may get the name of another one, with another type."""
    with SchemaRegistry(compatibility=None) as registry:
        yield registry


class RandomPipeline:
    """A relay that runs, with tables to be changed, and the mirror of these."""

    def __init__(self, seed: int, new_relay: NewRelay, database: Database, registry: SchemaRegistry) -> None:
        self.mirror = RandomMirror(seed, registry.url)
        print(f"PGRELAY_TEST_SEED={seed}", vars(self.mirror))
        database.execute(CREATE)
        self.relay = new_relay(records=self.mirror.records(), sink=self.mirror.sink).start().wait_streaming()
        self.random = random.Random(seed)
        self._database = database
        self._workload = Workload(database, seed)
        self._columns = RandomColumns(database, seed)
        self.seed = seed

    @contextmanager
    def changes(self, longest_pause_s: float) -> Iterator[None]:
        """Change rows and columns, and kill the relay now and then, during the block.

        Afterwards the relay has delivered everything.
        """
        rng = random.Random(self.seed)
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(rng.uniform(0.2, longest_pause_s)):
                self._workload.run(rng.randint(1, 3))
                self._columns.change()
                if rng.random() < 0.05:
                    self.relay.kill()
                    self.relay.start()

        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(run)
            try:
                yield
            finally:
                stop.set()
            running.result()
        self.relay.caught_up()

    def expect_equal(self, spark: SparkSession, warehouse: Path) -> None:
        mirror = self.mirror
        for table in mirror.tables:
            names, expected = in_postgres(self._database, table)
            rows = mirrored(spark, warehouse, mirror.using, f"{self.relay.prefix}_{table}")
            now = rows.where("__valid_to IS NULL") if mirror.history else rows
            assert in_lake(now, names) == expected, "\n".join([table, *self._columns.statements])
            assert mirror.history or set(rows.columns) == {*names, "__commit_lsn", "__seq"}


@pytest.fixture(params=range(4))
def pipeline(
    request: pytest.FixtureRequest, new_relay: NewRelay, database: Database, registry: SchemaRegistry
) -> RandomPipeline:
    return RandomPipeline(SEED + int(request.param), new_relay, database, registry)


@long
@pytest.mark.timeout(600)
def test_the_lake_equals_postgres_after_random_changes_and_stops(
    spark: SparkSession, warehouse: Path, pipeline: RandomPipeline, tmp_path: Path
) -> None:
    relay = pipeline.relay
    given = spark, relay.kafka.bootstrap, relay.prefix, tmp_path / "checkpoint"
    with pipeline.changes(1):
        for _ in range(ENDS):
            query = pipeline.mirror.start(*given, processingTime="0 seconds")
            query.awaitTermination(pipeline.random.randint(1, 12))
            query.stop()
    pipeline.mirror.start(*given, availableNow=True).awaitTermination()
    pipeline.expect_equal(spark, warehouse)


@long
@pytest.mark.timeout(900)
def test_the_lake_equals_postgres_after_random_changes_and_kills(
    spark: SparkSession, registry: SchemaRegistry, pipeline: RandomPipeline, tmp_path: Path
) -> None:
    relay = pipeline.relay
    given = relay.kafka.bootstrap, relay.prefix, str(pipeline.seed), registry.url
    runs = MirrorRuns("tests.spark.random_mirror_process", tmp_path, *given)
    # Each change of columns is a merge of its own, and no run but the last may get far.
    with pipeline.changes(4):
        for _ in range(ENDS):
            runs.die_after(pipeline.random.randint(1, 15))
    runs.finish()
    pipeline.expect_equal(spark, tmp_path)
