"""The client with which a check queries Kafka, without a broker."""

import weakref

from pgrelay.config import SinkConfig
from pgrelay.kafka.cluster import Cluster
from tests.integration.waiting import eventually
from tests.threads import gc_disabled, librdkafka_threads


async def test_the_client_is_freed_after_its_block() -> None:
    with gc_disabled():
        before = librdkafka_threads()
        async with Cluster(SinkConfig(kafka={"bootstrap.servers": "127.0.0.1:1"})) as cluster:
            assert librdkafka_threads() - before
            ended = weakref.ref(cluster)
        del cluster
        # A thread that was joined is still listed for an instant.
        await eventually(lambda: librdkafka_threads() <= before, "librdkafka's threads to end")
        assert ended() is None
