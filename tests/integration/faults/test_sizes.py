"""Very many tables and columns, and very large values: row 42 of docs/guarantees.md."""

import psycopg
import pytest
from psycopg import sql

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.kafka_admin import allow_records_of
from tests.integration.faults.outcomes import WRONG, last_words
from tests.integration.faults.own_servers import own_kafka
from tests.integration.relays import Relay
from tests.integration.servers import KafkaServer
from tests.integration.topics import create_topic

TABLES = 2000
COLUMNS = 1600  # Postgres's limit
LARGE = 40 << 20  # bytes
UNPRINTABLE = 540_000_000  # bytes of a bytea, whose text takes twice as many, over a gigabyte
LARGEST = 100 << 20  # the largest request that a broker accepts by default (socket.request.max.bytes)


def test_a_table_of_1600_columns_is_relayed(relay: Relay, database: Database) -> None:
    names = [f"c{number}" for number in range(1, COLUMNS)]
    columns = ", ".join(f"{name} int" for name in names)
    database.execute(f"CREATE TABLE wide (id int PRIMARY KEY, {columns})")
    database.execute(f"INSERT INTO wide VALUES (0, {', '.join(map(str, range(1, COLUMNS)))})")
    database.execute(f"UPDATE wide SET {names[-1]} = NULL")
    relay.caught_up()
    created, updated = (record.json["after"] for record in relay.records("wide"))
    assert created == {"id": 0} | {name: number for number, name in enumerate(names, 1)}
    assert updated == created | {names[-1]: None}


def test_thousands_of_tables_are_relayed(database: Database, new_relay: NewRelay) -> None:
    """Tables that exist at the start, and tables with rows."""
    with database.connect() as connection:
        for number in range(TABLES):
            connection.execute(f"CREATE TABLE t{number} (id int PRIMARY KEY)".encode())
    relay = new_relay().start().wait_streaming()
    some = range(0, TABLES, TABLES // 20)
    with psycopg.connect(database.dsn) as connection:
        for number in some:
            connection.execute(sql.SQL("INSERT INTO {} VALUES (1)").format(sql.Identifier(f"t{number}")))
    relay.caught_up()
    for number in some:
        assert [record.json_key for record in relay.records(f"t{number}")] == [{"id": 1}]
    relay.wait_for(lambda: relay.metric("pgrelay_published_tables") == TABLES, "the metric to count them")


@own_kafka()
@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_a_value_of_tens_of_megabytes_is_relayed(
    database: Database, kafka: KafkaServer, new_relay: NewRelay, binary: bool
) -> None:
    """If the operator raises the limits; the next row follows."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY, body text)")
    relay = new_relay(sink={"kafka": {"message.max.bytes": LARGEST}}, source={"binary": binary})
    create_topic(kafka.bootstrap, relay.topic("t"))
    allow_records_of(LARGEST, kafka.bootstrap, relay.topic("t"))
    relay.start().wait_streaming()
    database.execute(f"INSERT INTO t VALUES (1, repeat('0123456789abcdef', {LARGE // 16})), (2, 'small')")
    relay.caught_up()
    large, small = relay.records("t")
    assert large.json["after"] == {"id": 1, "body": "0123456789abcdef" * (LARGE // 16)}
    assert small.json["after"] == {"id": 2, "body": "small"}


def test_a_value_that_postgres_can_not_print_ends_the_relay(relay: Relay, database: Database) -> None:
    """The relay does not wait, since this would never pass."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY, body bytea)")
    database.execute(f"INSERT INTO t VALUES (1, repeat('x', {UNPRINTABLE})::bytea)")
    assert "source.binary: true" in last_words(relay, WRONG)
