"""A relay's topics with hand-made records, and mirrors that apply what is there and end."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pgrelay import spark as pg
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.schemas.columns import Column
from tests.integration.topics import create_topic
from tests.spark.handmade_records import Message, produce


class HandmadeRelay:
    """The topics of one prefix; a mirror's checkpoint is in `folder`."""

    def __init__(self, spark: SparkSession, bootstrap: str, prefix: str, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.prefix = prefix
        self._folder = folder
        for own in ("schema", "transaction"):
            create_topic(bootstrap, f"{prefix}.{own}")

    def topic(self, table: str) -> str:
        return f"{self.prefix}.public.{table}"

    def table(
        self,
        name: str,
        *columns: Column,
        since: int = 1,
        partitions: int = 1,
        called: str = "",
        relation: int = 0,
        systemid: str = "1",
    ) -> str:
        """Announce a table, and create its topic if this is its first version. Returns the topic's name.

        `called`: the table's name, if a route sends it to another table's topic.
        """
        topic = self.topic(name)
        if since == 1:
            create_topic(self.bootstrap, topic, partitions)
        record: dict[str, Any] = {
            "systemid": systemid,
            "topic": topic,
            "schema": "public",
            "table": called or name,
        }
        record |= {"relation_id": relation, "lsn": since, "seq": 0}
        described = [
            {
                "name": column.name,
                "type_name": column.type_name,
                "type_modifier": column.type_modifier,
                "key": column.key,
                "encoding": column.encoding,
                **({"hidden": True} if column.text else {}),
            }
            for column in columns
        ]
        self._write("schema", {**record, "replica_identity": "default", "columns": described})
        return topic

    def write(self, table: str, *messages: Message) -> None:
        produce(self.bootstrap, self.topic(table), messages)

    def expire(self, table: str, until: int) -> None:
        """Delete a topic's records before an offset, like retention."""
        client = AdminClient({"bootstrap.servers": self.bootstrap})
        for gone in client.delete_records([TopicPartition(self.topic(table), 0, until)]).values():
            gone.result()

    def end(self, lsn: int, *, begun: bool = True, **events: int) -> None:
        """Write BEGIN, if `begun`, and END of a transaction with these numbers of events of each table."""
        if begun:
            begin = {"status": "BEGIN", "data_collections": None, "ts_ms": lsn * 1000, "commit_lsn": lsn}
            self._write("transaction", begin)
        counts = [{"data_collection": f"public.{table}", "event_count": n} for table, n in events.items()]
        end = {"status": "END", "data_collections": counts, "ts_ms": lsn * 1000, "commit_lsn": lsn}
        self._write("transaction", end)

    def mirror(
        self,
        tables: Mapping[str, str],
        *,
        checkpoint: str = "checkpoint",
        using: Using = "iceberg",  # which writes small batches faster
        **choices: Any,
    ) -> StreamingQuery:
        """Mirror tables to targets up to the end of their topics. Returns the query, which has ended."""
        query = self._start(tables, {"availableNow": True}, checkpoint=checkpoint, using=using, **choices)
        query.awaitTermination()
        return query

    @contextmanager
    def mirroring(self, tables: Mapping[str, str], **choices: Any) -> Iterator[StreamingQuery]:
        """Mirror tables to targets while the block runs, with the choices of `mirror`."""
        query = self._start(tables, {"processingTime": "0 seconds"}, **choices)
        try:
            yield query
        finally:
            query.stop()

    def _start(
        self,
        tables: Mapping[str, str],
        trigger: Mapping[str, Any],
        *,
        checkpoint: str = "checkpoint",
        using: Using = "iceberg",
        query_function: Callable[..., StreamingQuery] = pg.mirror,
        **choices: Any,
    ) -> StreamingQuery:
        return query_function(
            self.spark,
            self.bootstrap,
            {self.topic(table): target for table, target in tables.items()},
            prefix=self.prefix,
            checkpoint=str(self._folder / checkpoint),
            using=using,
            trigger=trigger,
            **choices,
        )

    def _write(self, what: str, record: dict[str, Any]) -> None:
        produce(self.bootstrap, f"{self.prefix}.{what}", [Message(json.dumps(record).encode())])
