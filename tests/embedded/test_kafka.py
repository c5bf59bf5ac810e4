from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from pgrelay.embedded.daemon import ServerFailed
from pgrelay.embedded.jars import Unavailable
from pgrelay.embedded.kafka import Kafka
from tests.integration.proxy import Proxy
from tests.integration.topics import create_topic, read_topic
from tests.unavailable import skip


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    try:
        with Kafka() as broker:
            yield broker
    except Unavailable as error:
        skip(error)


def _produce(bootstrap: str, topic: str, value: bytes) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 60_000, "log_level": 0})
    producer.produce(topic, value)
    return producer


def test_creates_no_topic_by_itself(broker: Kafka) -> None:
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "topic.metadata.propagation.max.ms": 500})
    producer.produce("missing", b"value", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert [error and error.name() for error in errors] == ["UNKNOWN_TOPIC_OR_PART"]


@pytest.mark.parametrize("codec", ["gzip", "lz4", "snappy", "zstd"])
def test_reads_every_compression(broker: Kafka, codec: str) -> None:
    create_topic(broker.bootstrap, codec, compression_type="uncompressed")  # so the broker must decompress
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec})
    producer.produce(codec, b"x" * 10_000)
    assert producer.flush(60) == 0
    assert len(read_topic(broker.bootstrap, codec)) == 1


def test_data_survives_a_kill_and_a_restart(broker: Kafka) -> None:
    create_topic(broker.bootstrap, "kept")
    assert _produce(broker.bootstrap, "kept", b"before").flush(60) == 0
    broker.kill()
    assert not broker.running
    broker.start()
    assert _produce(broker.bootstrap, "kept", b"between").flush(60) == 0
    broker.restart()
    assert [record.value for record in read_topic(broker.bootstrap, "kept")] == [b"before", b"between"]


def test_answers_nothing_while_paused(broker: Kafka) -> None:
    create_topic(broker.bootstrap, "paused")
    broker.pause()
    producer = _produce(broker.bootstrap, "paused", b"value")
    assert producer.flush(0.5) == 1
    broker.resume()
    assert producer.flush(60) == 0


def test_stops_even_while_paused(broker: Kafka) -> None:
    broker.pause()
    broker.restart()


def test_the_second_listener_keeps_clients_on_the_proxy(broker: Kafka) -> None:
    create_topic(broker.bootstrap, "proxied")
    with Proxy(broker.proxy_target_port, broker.proxy_port) as proxy:
        producer = _produce(broker.proxied_bootstrap, "proxied", b"value")
        assert producer.flush(60) == 0
        proxy.refuse()
        with pytest.raises(KafkaException):
            producer.list_topics(timeout=0.5)
        proxy.release()
        producer.list_topics(timeout=60)


def test_a_given_folder_keeps_the_data(tmp_path: Path, broker: Kafka) -> None:
    with Kafka(tmp_path) as first:
        create_topic(first.bootstrap, "kept")
        assert _produce(first.bootstrap, "kept", b"value").flush(60) == 0
    with Kafka(tmp_path) as second:
        assert [record.value for record in read_topic(second.bootstrap, "kept")] == [b"value"]


def test_starts_on_a_turkish_machine(broker: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Duser.language=tr -Duser.country=TR")
    with Kafka() as other:
        create_topic(other.bootstrap, "t")


def test_the_error_for_a_wrong_setting_shows_the_log(broker: Kafka) -> None:
    kafka = Kafka(settings={"num.network.threads": "none"})
    with pytest.raises(ServerFailed, match=r"(?s)Kafka.*num\.network\.threads"), kafka:
        pass
    assert not kafka.log.exists()
