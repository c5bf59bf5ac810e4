"""Table schemas from the schema topic, which needs no registry and no database credentials."""

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pgrelay.encode.topics import shorten
from pgrelay.errors import SetupError
from pgrelay.spark.columns import Column
from pgrelay.spark.kafka import read_topics
from pgrelay.spark.schema import TableSchema, TableVersion, folded


def table_schemas(
    spark: SparkSession, servers: str, prefix: str, *, options: Mapping[str, str] | None = None
) -> dict[str, TableSchema]:
    """The schema of every table that the relay of this prefix has told of, by its topic.

    Shapes: `{"app.public.orders": TableSchema}`, with every version from the topic's beginning. `options` are
    those of Spark's Kafka source. Raises SetupError where the topic has none.
    """
    topic = SchemaTopic(servers, prefix, options)
    schemas = topic.read(spark)
    if not schemas:
        raise SetupError(
            f"topic {topic.name} has no schemas: has a relay of prefix {prefix!r} written rows there?"
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
        self._records: dict[str, list[dict[str, Any]]] = {}

    def read(self, spark: SparkSession) -> dict[str, TableSchema]:
        """All that the topic tells by now."""
        options = dict(self._options)
        if self._next:
            options["startingOffsets"] = json.dumps({self.name: {"0": self._next}})
        value = F.col("value").cast("string").alias("value")
        rows = read_topics(spark, self._servers, self.name, options=options).select("offset", value)
        for row in rows.orderBy("offset").collect():
            self._next = row["offset"] + 1
            if row["value"] is not None:
                record = json.loads(row["value"])
                self._records.setdefault(record["topic"], []).append(record)
        return {topic: _schema(topic, records) for topic, records in self._records.items()}

    def clusters(self, topic: str) -> list[str]:
        """The systemid of every cluster whose rows a topic has, the last one's last."""
        return list(dict.fromkeys(record["systemid"] for record in self._records.get(topic, [])))


def _schema(topic: str, records: list[dict[str, Any]]) -> TableSchema:
    """Of the cluster that wrote last: the LSNs of another tell nothing about its rows."""
    last = records[-1]
    systemid = last["systemid"]
    versions = [_version(record) for record in records if record["systemid"] == systemid]
    return TableSchema(topic, last["schema"], last["table"], folded(versions), systemid)


def _version(record: dict[str, Any]) -> TableVersion:
    columns = tuple(
        Column(
            name=column["name"],
            type_name=column["type_name"],
            type_modifier=column["type_modifier"],
            key=column["key"],
            encoding=column["encoding"],
        )
        for column in record["columns"]
    )
    position = (record["lsn"], record["seq"])
    return TableVersion(position, columns, record["replica_identity"], record.get("relation_id", 0))
