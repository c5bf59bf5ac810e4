"""Topics of a run, and how they are configured; the sink that writes to them."""

from typing import Any

from pgrelay.check.topics import WantedTopic
from pgrelay.config import SinkConfig
from pgrelay.kafka.cluster import Topic, TopicConfig

BROKER = TopicConfig(message_bytes=1_048_588, min_in_sync=1, cleanup="delete", retention_ms=604_800_000)
LASTING = TopicConfig(message_bytes=1_048_588, min_in_sync=1, cleanup="delete", retention_ms=-1)
COMPACTED = TopicConfig(message_bytes=1_048_588, min_in_sync=1, cleanup="compact", retention_ms=604_800_000)
ORDERS = WantedTopic("orders")
LOG = WantedTopic("log", keyless=True)
MESSAGE = WantedTopic("message", "messages")
SCHEMA = WantedTopic("schema", "schemas")
OFFSETS = WantedTopic("offsets", "offsets")
ONE = Topic(partitions=1, replicas=1, in_sync=1)
THREE = {1: "b1:9092", 2: "b2:9092", 3: "b3:9092"}


def sink(**keys: Any) -> SinkConfig:
    options = {"bootstrap.servers": "b:9092", **keys.pop("kafka", {})}
    return SinkConfig(kafka=options, **keys)
