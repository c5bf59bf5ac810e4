"""Records acknowledged and lost in topics that were just created: `python -m bench.new_topics`.

Each topic is written to as soon as it exists, by a plain idempotent producer (acks=all) or by a `Sink`, in a
few bursts. Then its ends are compared with the acknowledgements. A busy machine shows more.
"""

import argparse
import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pgrelay.config import SinkConfig
from pgrelay.embedded.kafka import Kafka
from pgrelay.encode.records import BY_KEY, Record
from pgrelay.errors import KafkaUnavailable
from pgrelay.kafka.sink import Sink
from pgrelay.progress import InFlight

_PARTITIONS: Final = 3
_BURSTS: Final = 4
_RECORDS: Final = 8
_LINGER_MS: Final = 20

# Writes to a topic, which it makes at the bootstrap server; how many records Kafka acknowledged.
Write = Callable[[str, str], int]


def _keys(burst: int) -> list[bytes]:
    return [b"k%d" % number for number in range(burst * _RECORDS, (burst + 1) * _RECORDS)]


def _plain(bootstrap: str, topic: str) -> int:
    """Write by a plain producer; how many records Kafka acknowledged."""
    options = {"bootstrap.servers": bootstrap, "linger.ms": _LINGER_MS, "partitioner": "murmur2_random"}
    producer = Producer({**options, "enable.idempotence": True, "acks": "all"})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, _PARTITIONS, 1)])[topic].result()
    while len(producer.list_topics(topic, 10).topics[topic].partitions) < _PARTITIONS:
        time.sleep(0.01)
    refused: list[Message] = []

    def report(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(message)

    for burst in range(_BURSTS):
        for key in _keys(burst):
            producer.produce(topic, b"v", key, on_delivery=report)
        producer.flush(0.03)
    producer.flush(30)
    return _BURSTS * _RECORDS - len(refused) - len(producer)


def _by_sink(bootstrap: str, topic: str) -> int:
    """The same by a relay's sink."""
    return asyncio.run(_written(bootstrap, topic))


async def _written(bootstrap: str, topic: str) -> int:
    sink = Sink(
        SinkConfig(
            kafka={"bootstrap.servers": bootstrap, "linger.ms": str(_LINGER_MS)}, partitions=_PARTITIONS
        )
    )
    sent = InFlight(None)
    try:
        await sink.topics.load()
        await sink.topics.require(topic)
        delivery = sink.delivery(sent, 0)
        for burst in range(_BURSTS):
            records: list[Record] = [(topic, key, b"v", None, BY_KEY) for key in _keys(burst)]
            sink.produce(records, 0, delivery)
            await sink.drain(lambda: True, 0.03)
        await sink.drain(lambda: sent.acknowledged < _BURSTS * _RECORDS, 30)
    except KafkaUnavailable as error:
        print(f"noticed: {error}")
    finally:
        await sink.close()
    return sent.acknowledged


def _ends(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
    try:
        parts = [TopicPartition(topic, number) for number in range(_PARTITIONS)]
        return sum(consumer.get_watermark_offsets(part, timeout=10)[1] for part in parts)
    finally:
        consumer.close()


def _losses(bootstrap: str, name: str, write: Write, until: float) -> list[int]:
    """How many acknowledged records each new topic lacks, until a time."""
    missing: list[int] = []
    while time.monotonic() < until:
        topic = f"{name}.{len(missing)}"
        # After an error, Kafka may have more than it has acknowledged.
        missing.append(max(0, write(bootstrap, topic) - _ends(bootstrap, topic)))
    return missing


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="for each of the two (60)")
    parser.add_argument("--writers", type=int, default=3, help="at once: the busier, the more is lost (3)")
    options = parser.parse_args()
    writers: dict[str, Write] = {"plain producer": _plain, "sink": _by_sink}
    with Kafka() as kafka, ThreadPoolExecutor(options.writers) as pool:
        for name, write in writers.items():
            until = time.monotonic() + options.seconds
            names = [f"{name.partition(' ')[0]}{number}" for number in range(options.writers)]
            tasks = [pool.submit(_losses, kafka.bootstrap, each, write, until) for each in names]
            missing = [count for task in tasks for count in task.result()]
            bad = sum(count > 0 for count in missing)
            print(f"{name}: {bad} of {len(missing)} new topics lost {sum(missing)} acknowledged records")


if __name__ == "__main__":
    main()
