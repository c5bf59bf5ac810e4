"""Reading positions from the offsets topic, whoever wrote them."""

import json
import uuid

import pytest
from confluent_kafka import Producer

from pgrelay.config import SinkConfig
from pgrelay.errors import PositionError
from pgrelay.kafka.offsets import Identity, Offsets, Position
from tests.integration.servers import KafkaServer
from tests.integration.topics import create_topic

OURS = {"systemid": "7", "db": "d", "slot": "s"}
POSITION = {"lsn": 256, "commit_lsn": None, "seq": None, "timeline": 1}


@pytest.fixture
def offsets(kafka: KafkaServer) -> Offsets:
    """A slot's positions, in their own topic."""
    topic = f"offsets.{uuid.uuid4().hex}"
    create_topic(kafka.bootstrap, topic, cleanup_policy="compact")
    return Offsets(SinkConfig(kafka={"bootstrap.servers": kafka.bootstrap}), topic, Identity(**OURS))


def write(kafka: KafkaServer, offsets: Offsets, key: bytes, value: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(offsets.topic, value, key)
    assert producer.flush(60) == 0


def packed(document: object) -> bytes:
    return json.dumps(document).encode()


async def test_members_added_by_a_later_version_are_ignored(kafka: KafkaServer, offsets: Offsets) -> None:
    key = packed({**OURS, "region": "north"})
    write(kafka, offsets, packed(OURS), packed({**POSITION, "lsn": 1}))
    write(kafka, offsets, key, packed({**POSITION, "shard": 3}))
    assert await offsets.read() == Position(256, timeline=1)
    assert [record[1] for record in await offsets.tombstones()] == [packed(OURS), key]


async def test_a_position_never_goes_back(kafka: KafkaServer, offsets: Offsets) -> None:
    """A replaced relay may write an older one late. A reset forgets all positions."""
    key = packed(OURS)
    write(kafka, offsets, key, packed({**POSITION, "commit_lsn": 300, "seq": 7}))
    write(kafka, offsets, key, packed({**POSITION, "lsn": 255}))
    write(kafka, offsets, key, packed({**POSITION, "commit_lsn": 300, "seq": 6}))
    assert await offsets.read() == Position(256, 300, 7, timeline=1)
    write(kafka, offsets, key, packed({**POSITION, "lsn": 257, "timeline": 2}))
    assert await offsets.read() == Position(257, timeline=2)
    write(kafka, offsets, key, None)
    write(kafka, offsets, key, packed({**POSITION, "lsn": 1}))
    assert await offsets.read() == Position(1, timeline=1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"rubbish", b"rubbish"),
        (b"\xff", packed(POSITION)),
        (packed("s"), packed(POSITION)),
        (packed({"slot": "s"}), packed(POSITION)),
        (packed(OURS), packed({"seq": 1})),
        (packed(OURS), packed({**POSITION, "lsn": "0/100"})),
        (packed(OURS), packed({**POSITION, "lsn": None})),
        (packed(OURS), packed({**POSITION, "numbering": 7})),
    ],
)
async def test_an_invalid_position_is_an_error_that_names_its_offset(
    kafka: KafkaServer, offsets: Offsets, key: bytes, value: bytes
) -> None:
    write(kafka, offsets, packed({**OURS, "slot": "other"}), packed(POSITION))
    write(kafka, offsets, key, value)
    place = f"topic {offsets.topic}, partition 0, offset 1: not a position"
    with pytest.raises(PositionError, match=f"^{place}.*; run the version .* and no value there$"):
        await offsets.read()
    write(kafka, offsets, key, None)
    assert await offsets.read() is None
