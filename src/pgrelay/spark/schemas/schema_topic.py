"""Table schemas from the schema topic, which take neither a registry nor a login to the database."""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pgrelay.encode.topics import shorten
from pgrelay.errors import SetupError
from pgrelay.spark.failures import wrap_java_errors
from pgrelay.spark.kafka import read_topics, refuse_invalid_source
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import (
    Position,
    TableSchema,
    TableVersion,
    distinct_versions,
    refuse_invalid_prefix,
    topic_list,
)

# How long to wait for the end of a Kafka transaction to be written to all its partitions.
_TIMEOUT_S: Final = 10.0
_POLL_INTERVAL_S: Final = 0.2


def table_schemas(
    spark: SparkSession,
    servers: str,
    prefix: str,
    *,
    topics: Iterable[str] | None = None,
    options: Mapping[str, str] | None = None,
) -> dict[str, TableSchema]:
    """The schemas of all tables in this prefix's schema topic, by the table's topic; or only of `topics`.

    Shapes: `{"app.public.orders": TableSchema}`, with every version from the topic's beginning. `options` are
    those of Spark's Kafka source. Raises SetupError if the schema topic lacks one of `topics`, or has none at
    all (a table has a schema there from its first row on), or an argument is mistaken, and PgrelayError if
    Kafka can't be read.
    """
    wanted = None if topics is None else topic_list(topics)
    refuse_invalid_prefix(prefix)
    refuse_invalid_source(spark, servers, options, streaming=False)
    topic = SchemaTopic(servers, prefix, options)
    schemas = topic.read(spark, wanted)
    missing = [name for name in wanted or () if name not in schemas]
    if missing or not schemas:
        of = f" of {', '.join(missing)}" if missing else ""
        cure = (
            "check the topic's name; a table has a schema from its first row on"
            if topic.has_schemas
            else f"has a relay of prefix {prefix!r} written rows there?"
        )
        raise SetupError(f"topic {topic.name} has no schemas{of}: {cure}")
    return schemas


class SchemaTopic:
    """The schema topic of a relay; each read goes on from where the last one ended."""

    def __init__(self, servers: str, prefix: str, options: Mapping[str, str] | None = None) -> None:
        self.name = shorten(f"{prefix}.schema")
        self._servers = servers
        # Options on where to start and how much to take are meant for the tables' topics.
        self._options = {k: v for k, v in (options or {}).items() if k.startswith("kafka.")}
        self._next = 0
        self._gave_up_at = -1  # the last offset that was waited for in vain
        self._topics: dict[str, _TopicVersions] = {}

    @property
    def has_schemas(self) -> bool:
        """Whether a schema, of whichever topic, was read so far."""
        return bool(self._topics)

    def read(self, spark: SparkSession, topics: Iterable[str] | None = None) -> dict[str, TableSchema]:
        """All schemas written by now, or those of `topics` only: Spark may be unable to represent others."""
        self._read_new(spark)
        return self._select(topics)

    def read_with_uncommitted(self, spark: SparkSession, topics: Iterable[str]) -> dict[str, TableSchema]:
        """The same, with those written but not committed yet, for whose commit it waits some seconds.

        An exactly-once relay writes a schema in the same transaction as the rows that need it, and the rows'
        partitions may learn of the commit before the schema topic does.
        """
        with wrap_java_errors(self.name):
            uncommitted = self._rows(spark, {"kafka.isolation.level": "read_uncommitted"})
            [last] = uncommitted.agg(F.max("offset")).first() or [None]
        deadline = time.monotonic() + _TIMEOUT_S
        while last is not None and self._next <= last:
            self._read_new(spark)
            # What a relay aborted never comes.
            if self._next > last or last <= self._gave_up_at or time.monotonic() > deadline:
                self._gave_up_at = last
                break
            time.sleep(_POLL_INTERVAL_S)
        return self._select(topics)

    def _read_new(self, spark: SparkSession) -> None:
        value = F.col("value").cast("string").alias("value")
        with wrap_java_errors(self.name):
            rows = self._rows(spark, {}).select("offset", value).orderBy("offset").collect()
        for row in rows:
            self._next = row["offset"] + 1
            if row["value"] is not None:
                self._add(json.loads(row["value"]))

    def _rows(self, spark: SparkSession, more: Mapping[str, str]) -> DataFrame:
        """The records that have not been read yet."""
        options = {**self._options, **more}
        if self._next:
            options["startingOffsets"] = json.dumps({self.name: {"0": self._next}})
        return read_topics(spark, self._servers, self.name, options=options)

    def _select(self, topics: Iterable[str] | None) -> dict[str, TableSchema]:
        wanted = self._topics if topics is None else topics
        return {topic: self._topics[topic].schema(topic) for topic in wanted if topic in self._topics}

    def clusters(self, topic: str) -> list[str]:
        """The systemid of every cluster whose rows a topic has, in the order in which they first wrote."""
        return list(self._topics[topic].clusters) if topic in self._topics else []

    def _add(self, record: dict[str, Any]) -> None:
        self._topics.setdefault(record["topic"], _TopicVersions()).add(record)


class _TopicVersions:
    """The versions of one topic's table by position, for each cluster that wrote to it."""

    def __init__(self) -> None:
        self.clusters: dict[str, dict[Position, TableVersion]] = {}
        # By cluster and relation: the last name, and the position from which it holds.
        self._named: dict[str, dict[str, tuple[Position, str]]] = {}
        self._systemid = self._namespace = self._table = ""
        self._last: TableVersion | None = None
        self._schema: TableSchema | None = None  # until the next record

    def add(self, record: dict[str, Any]) -> None:
        self._systemid, self._namespace, self._table = (
            record[name] for name in ("systemid", "schema", "table")
        )
        version = _version(record)
        if self._last is not None and version.repeats(self._last):
            # There may be thousands of such versions: share their columns.
            version = replace(self._last, position=version.position)
        self._last, self._schema = version, None
        self.clusters.setdefault(self._systemid, {})[version.position] = version
        name = f"{self._namespace}.{self._table}"
        named = self._named.setdefault(self._systemid, {})
        relation = str(version.relation or name)
        named[relation] = max(named.get(relation, (version.position, name)), (version.position, name))

    def schema(self, topic: str) -> TableSchema:
        """The schema by the cluster that wrote last: the LSNs of another say nothing about its rows."""
        if self._schema is None:
            self._schema = self._build(topic)
        return self._schema

    def _build(self, topic: str) -> TableSchema:
        # A renamed table is one relation with one last name; a re-created one has its predecessor's name.
        names = {name for _, name in self._named[self._systemid].values()}
        sharing = tuple(sorted(names)) if len(names) > 1 else ()
        known = self.clusters[self._systemid].values()
        # Tables that share a topic take turns in it; such a turn does not mean a re-created table.
        versions = distinct_versions(replace(each, relation=0) if sharing else each for each in known)
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
