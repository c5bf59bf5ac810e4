"""What a check asks Kafka with. No broker is there."""

import asyncio
import weakref

from pgrelay.config import SinkConfig
from pgrelay.kafka.cluster import Cluster
from tests.threads import threads, without_collections


async def test_nothing_of_the_client_is_left_behind_its_block() -> None:
    await asyncio.to_thread(threads)  # the loop's own thread for such calls stays
    with without_collections():
        before = threads()
        async with Cluster(SinkConfig(kafka={"bootstrap.servers": "127.0.0.1:1"})) as cluster:
            ended = weakref.ref(cluster)
        del cluster
        assert threads() <= before
        assert ended() is None
