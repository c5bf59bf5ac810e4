"""A mirror, or a history, of the tables of a relay, with settings that a seed chooses."""

import random
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pgrelay import spark as pg
from tests.spark.tables import TABLES

_KEYED: Final = ("orders", "lines")


class RandomMirror:
    """The settings of a mirror and of its relay. `registry`: the address of one that the seed may use."""

    def __init__(self, seed: int, registry: str) -> None:
        chosen = random.Random(seed)
        self.history = chosen.random() < 0.25
        self.whole = not self.history and chosen.random() < 0.4
        self.using: Any = chosen.choice(["delta", "iceberg"])
        self.registry = registry if chosen.random() < 0.5 else None
        self.placeholder = chosen.random() < 0.3
        self.flat = chosen.random() < 0.4
        self.tables = _KEYED if self.history or self.flat else TABLES
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

    def start(
        self, spark: SparkSession, servers: str, prefix: str, checkpoint: Path, **trigger: Any
    ) -> StreamingQuery:
        """Mirror the tables to `lake.NAME`, in the session's warehouse."""
        given: dict[str, Any] = {} if self.history else {"whole_transactions": self.whole}
        # A batch that is cut in the midst of a topic may meet a delete before the create: see docs/spark.md.
        few = {"maxOffsetsPerTrigger": "300"} if self.sink["partitions"] == 1 or self.whole else {}
        return (pg.history if self.history else pg.mirror)(
            spark,
            servers,
            {f"{prefix}.public.{table}": f"lake.{prefix}_{table}" for table in self.tables},
            prefix=prefix,
            checkpoint=checkpoint,
            using=self.using,
            registry=self.registry,
            placeholder=self.placeholder or None,
            options={} if "availableNow" in trigger else few,
            trigger=trigger,
            **given,
        )
