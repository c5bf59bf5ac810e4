"""Table schemas from the schema topic, which needs no registry and no database credentials."""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pgrelay.encode.topics import shorten
from pgrelay.errors import SetupError
from pgrelay.spark.kafka import read_topics
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import Position, TableSchema, TableVersion, folded, refuse_text

# For the end of one of Kafka's transactions to be written to all its partitions.
_PATIENCE_S: Final = 10.0
_PAUSE_S: Final = 0.2


def table_schemas(
    spark: SparkSession,
    servers: str,
    prefix: str,
    *,
    topics: Iterable[str] | None = None,
    options: Mapping[str, str] | None = None,
) -> dict[str, TableSchema]:
    """The schema of every table that the relay of this prefix has told of, by its topic; or `topics` alone.

    Shapes: `{"app.public.orders": TableSchema}`, with every version from the topic's beginning. `options` are
    those of Spark's Kafka source. Raises SetupError where the schema topic has none of them.
    """
    refuse_text(topics)
    topic = SchemaTopic(servers, prefix, options)
    wanted = None if topics is None else list(topics)
    schemas = topic.read(spark, wanted)
    if not schemas:
        of = "" if wanted is None else f" of {', '.join(wanted)}"
        raise SetupError(
            f"topic {topic.name} has no schemas{of}: has a relay of prefix {prefix!r} written rows there?"
        )
    return schemas


class SchemaTopic:
    """The schema topic of a relay, read on from where it was read to."""

    def __init__(self, servers: str, prefix: str, options: Mapping[str, str] | None = None) -> None:
        self.name = shorten(f"{prefix}.schema")
        self._servers = servers
        # Where to start and how much to take are said of the tables' topics.
        self._options = {k: v for k, v in (options or {}).items() if k.startswith("kafka.")}
        self._next = 0
        self._given_up = -1  # the last offset that was waited for in vain
        self._told: dict[str, _Told] = {}

    def read(self, spark: SparkSession, topics: Iterable[str] | None = None) -> dict[str, TableSchema]:
        """All that is told by now, or what is of these topics. Others may be of no use to Spark."""
        self._read_on(spark)
        return self._of(topics)

    def read_written(self, spark: SparkSession, topics: Iterable[str]) -> dict[str, TableSchema]:
        """The same with what is written by now and not committed: some seconds are waited for that.

        A relay that writes exactly once tells of a table in the transaction of the rows that need it, and the
        rows' partitions may hear of its commit before the schema topic does.
        """
        uncommitted = self._rows(spark, {"kafka.isolation.level": "read_uncommitted"})
        [last] = uncommitted.agg(F.max("offset")).first() or [None]
        deadline = time.monotonic() + _PATIENCE_S
        while last is not None and self._next <= last:
            self._read_on(spark)
            # What a relay took back never comes.
            if self._next > last or last <= self._given_up or time.monotonic() > deadline:
                self._given_up = last
                break
            time.sleep(_PAUSE_S)
        return self._of(topics)

    def _read_on(self, spark: SparkSession) -> None:
        value = F.col("value").cast("string").alias("value")
        for row in self._rows(spark, {}).select("offset", value).orderBy("offset").collect():
            self._next = row["offset"] + 1
            if row["value"] is not None:
                self._take(json.loads(row["value"]))

    def _rows(self, spark: SparkSession, more: Mapping[str, str]) -> DataFrame:
        """The records that were not read yet."""
        options = {**self._options, **more}
        if self._next:
            options["startingOffsets"] = json.dumps({self.name: {"0": self._next}})
        return read_topics(spark, self._servers, self.name, options=options)

    def _of(self, topics: Iterable[str] | None) -> dict[str, TableSchema]:
        wanted = self._told if topics is None else topics
        return {topic: self._told[topic].schema(topic) for topic in wanted if topic in self._told}

    def clusters(self, topic: str) -> list[str]:
        """The systemid of every cluster whose rows a topic has, the last one's last."""
        return list(self._told[topic].clusters) if topic in self._told else []

    def _take(self, record: dict[str, Any]) -> None:
        self._told.setdefault(record["topic"], _Told()).take(record)


class _Told:
    """What is told of one topic: its versions by position, of each cluster that wrote to it."""

    def __init__(self) -> None:
        self.clusters: dict[str, dict[Position, TableVersion]] = {}
        # Of each cluster, by relation: the last name, and from when on.
        self._named: dict[str, dict[str, tuple[Position, str]]] = {}
        self._systemid = self._namespace = self._table = ""

    def take(self, record: dict[str, Any]) -> None:
        self._systemid, self._namespace, self._table = (
            record[name] for name in ("systemid", "schema", "table")
        )
        version = _version(record)
        self.clusters.setdefault(self._systemid, {})[version.position] = version
        name = f"{self._namespace}.{self._table}"
        named = self._named.setdefault(self._systemid, {})
        relation = str(version.relation or name)
        named[relation] = max(named.get(relation, (version.position, name)), (version.position, name))

    def schema(self, topic: str) -> TableSchema:
        """Of the cluster that wrote last: the LSNs of another tell nothing about its rows."""
        # A table that was renamed is one relation, and one that was made anew has the name of the one before.
        names = {name for _, name in self._named[self._systemid].values()}
        sharing = tuple(sorted(names)) if len(names) > 1 else ()
        told = self.clusters[self._systemid].values()
        # Those that share a topic take turns in it, of which none is a change.
        versions = folded(replace(version, relation=0) if sharing else version for version in told)
        return TableSchema(topic, self._namespace, self._table, versions, self._systemid, sharing)


def _version(record: dict[str, Any]) -> TableVersion:
    columns = tuple(
        Column(
            name=column["name"],
            type_name=column["type_name"],
            type_modifier=column["type_modifier"],
            key=column["key"],
            encoding=column["encoding"],
            # A mask or a hash is a string whatever the column is.
            text=column.get("hidden", False),
            type_oid=column.get("type_oid", 0),
        )
        for column in record["columns"]
    )
    position = (record["lsn"], record["seq"])
    return TableVersion(position, columns, record["replica_identity"], record.get("relation_id", 0))
