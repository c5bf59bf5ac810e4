"""The fixtures that the other integration tests rely on."""

import psycopg
import pytest
from confluent_kafka import Producer

from pgrelay.embedded.kafka import Kafka
from pgrelay.embedded.postgres import Postgres
from tests.integration.conftest import NewDatabase
from tests.integration.databases import Database
from tests.integration.proxy import Proxy
from tests.integration.servers import KafkaServer, Servers, on_all_versions, on_full_versions
from tests.integration.topics import create_topic, read_topic


@on_all_versions
def test_every_version_decodes_logically(database: Database, version: str) -> None:
    with database.connect() as connection:
        assert connection.info.server_version // 10_000 == int(version)
        for plugin in ("pgoutput", "test_decoding"):
            connection.execute(
                "SELECT pg_create_logical_replication_slot(%s, %s)", [f"{database.name}_{plugin}", plugin]
            )


@on_full_versions
def test_contrib_types_are_available(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("CREATE EXTENSION hstore")
        connection.execute("CREATE EXTENSION citext")


def test_a_database_is_dropped_with_everything_that_uses_it(
    servers: Servers, new_database: NewDatabase
) -> None:
    database = new_database(encoding="LATIN1", template="template0")
    with database.connect() as connection:
        assert connection.execute("SHOW server_encoding").fetchone() == ("LATIN1",)
        connection.execute(f"SELECT pg_create_logical_replication_slot('{database.name}', 'pgoutput')")
        connection.execute("CREATE TABLE t (i int)")
    left_open = psycopg.connect(database.dsn)
    left_open.execute("INSERT INTO t VALUES (1)")
    left_open.execute("PREPARE TRANSACTION 'forgotten'")
    left_open.close()


def test_a_servers_settings_are_restored(embedded_postgres: Postgres) -> None:
    embedded_postgres.settings["work_mem"] = "5MB"
    embedded_postgres.restart()
    with psycopg.connect(embedded_postgres.dsn) as connection:
        assert connection.execute("SHOW work_mem").fetchone() == ("5MB",)


def test_a_topic_is_read_to_its_end(kafka: KafkaServer, prefix: str) -> None:
    create_topic(kafka.bootstrap, prefix, partitions=3)
    assert read_topic(kafka.bootstrap, prefix) == []
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(10):
        producer.produce(
            prefix, b'{"number": %d}' % number, b'"k"', partition=number % 3, headers=[("h", b"v")]
        )
    producer.flush()
    records = read_topic(kafka.bootstrap, prefix, 10)
    assert sorted(record.json["number"] for record in records) == list(range(10))
    assert {(record.json_key, record.headers) for record in records} == {("k", (("h", b"v"),))}


def test_a_reader_of_committed_records_sees_no_others(kafka: KafkaServer, prefix: str) -> None:
    create_topic(kafka.bootstrap, prefix)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": prefix})
    producer.init_transactions(30)
    for value, end in ((b"1", producer.abort_transaction), (b"2", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(prefix, value)
        producer.flush()
        end()
    assert [record.value for record in read_topic(kafka.bootstrap, prefix)] == [b"2"]
    everything = read_topic(kafka.bootstrap, prefix, committed=False)
    assert [record.value for record in everything] == [b"1", b"2"]


def test_waiting_for_missing_records_ends_with_an_error(kafka: KafkaServer, prefix: str) -> None:
    create_topic(kafka.bootstrap, prefix)
    with pytest.raises(AssertionError, match="0 records"):
        read_topic(kafka.bootstrap, prefix, 1, timeout=1)


def test_without_idempotence_a_lost_answer_writes_a_record_twice(
    embedded_kafka: Kafka, kafka_proxy: Proxy, prefix: str
) -> None:
    """This shows why producers are idempotent, on the listener that has a proxy."""
    create_topic(embedded_kafka.bootstrap, prefix)
    producer = Producer(
        {
            "bootstrap.servers": embedded_kafka.proxied_bootstrap,
            "log_level": 0,
        }
    )
    producer.produce(prefix, b"before")
    assert producer.flush(60) == 0  # connected, and no other answer is needed before the next is sent
    kafka_proxy.hold_replies()
    producer.produce(prefix, b"once")
    read_topic(embedded_kafka.bootstrap, prefix, 2)
    kafka_proxy.reset()
    kafka_proxy.release()
    assert producer.flush(60) == 0
    values = [record.value for record in read_topic(embedded_kafka.bootstrap, prefix, 3)]
    assert values == [b"before", b"once", b"once"]
