"""A relay as docs/security.md sets it up: TLS, passwords and the least rights, against real servers."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, ResourceType  # type: ignore[attr-defined]
from psycopg.conninfo import make_conninfo

from pgrelay.embedded.kafka import Kafka
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.documented import acl_bindings
from tests.integration.faults.outcomes import WRONG, last_words
from tests.integration.faults.slots import exists
from tests.integration.proxy import Proxy
from tests.integration.security.certificates import Authority
from tests.integration.security.conftest import Secrets, allow, dsn, set_password, take_back
from tests.integration.topics import create_topic


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_rows_flow_with_only_the_documented_rights(
    database: Database, secured: NewRelay, delivery: str
) -> None:
    """Also after a restart, when exactly once reads its position."""
    relay = secured(sink={"delivery": delivery}).start().wait_streaming()
    database.execute("INSERT INTO orders VALUES (1); INSERT INTO customers VALUES (1)")
    relay.caught_up()
    assert relay.stop() == 0
    database.execute("INSERT INTO orders VALUES (2)")
    relay.start().wait_streaming()
    relay.caught_up()
    assert relay.stop() == 0
    assert [record.json_key for record in relay.records("orders")] == [{"id": 1}, {"id": 2}]
    assert [record.json_key for record in relay.records("customers")] == [{"id": 1}]
    with database.connect() as connection:
        row = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = 'pgrelay'").fetchone()
    assert row == (False,)


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_password_that_was_changed_meanwhile_ends_the_relay(
    database: Database, secured: NewRelay, broker: Kafka, proxy: Proxy, passwords: Secrets, delivery: str
) -> None:
    """Not before a connection is lost. A new login is refused, also in the middle of a Kafka transaction."""
    relay = secured(sink={"delivery": delivery}).start().wait_streaming()
    database.execute("INSERT INTO orders VALUES (1)")
    relay.caught_up()
    set_password(broker, "another", "pgrelay")
    try:
        proxy.reset()
        database.execute("INSERT INTO orders VALUES (2)")
        assert "correct the credentials in sink.kafka" in last_words(relay, WRONG)
    finally:
        set_password(broker, passwords.kafka, "pgrelay")
    relay.start().wait_streaming()
    relay.caught_up()
    assert [record.json_key for record in relay.records("orders")] == [{"id": 1}, {"id": 2}]


def test_a_check_says_that_both_connections_are_encrypted(secured: NewRelay) -> None:
    checked = secured().command("check").stdout
    assert "replication connections are allowed, over TLS" in checked
    assert ", by sasl_ssl: 1 broker" in checked


def test_the_documented_rights_allow_dead_letters_by_a_topics_limit(
    database: Database, secured: NewRelay, broker: Kafka
) -> None:
    relay = secured(errors={"on_record": "dead_letter"})
    create_topic(broker.bootstrap, relay.topic("orders"), max_message_bytes="10000")
    relay.start().wait_streaming()
    noise = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 1000) i)"
    database.execute(f"INSERT INTO orders VALUES (1, {noise}); INSERT INTO orders VALUES (2)")
    relay.caught_up()
    assert [record.json_key for record in relay.records("orders")] == [{"id": 2}]
    assert [record.json_key for record in relay.read(f"{relay.prefix}.dead_letter")] == [{"id": 1}]


@pytest.mark.parametrize(
    ("which", "complaint"),
    [
        ("topic", "topic {prefix}.schema can't be created: Authorization failed"),
        ("transactional_id", "grant WRITE and DESCRIBE on TransactionalId pgrelay-*"),
        ("offsets", "Kafka does not let us read topic {prefix}.offsets"),
    ],
)
def test_a_missing_right_in_kafka_ends_the_relay_with_a_line_that_names_it(
    secured: NewRelay, broker: Kafka, database: Database, which: str, complaint: str
) -> None:
    relay = secured(sink={"delivery": "exactly_once"})
    take_back(broker)
    rights = acl_bindings(relay.prefix, exactly_once=True)
    allow(broker, [right for right in rights if not is_of(right, which)])
    database.execute("INSERT INTO orders VALUES (1)")
    assert complaint.format(prefix=relay.prefix) in last_words(relay.start(), WRONG)


def test_without_the_right_to_write_anywhere_the_relay_ends(
    secured: NewRelay, broker: Kafka, database: Database
) -> None:
    """The broker refuses such a producer as a whole, before it is asked about a topic."""
    relay = secured()
    take_back(broker)
    rights = acl_bindings(relay.prefix, exactly_once=False)
    allow(broker, [right for right in rights if right.operation != AclOperation.WRITE])
    database.execute("INSERT INTO orders VALUES (1)")
    assert "; grant WRITE on pgrelay's topics" in last_words(relay.start(), WRONG)


def test_at_least_once_works_without_the_right_to_read_its_position(
    secured: NewRelay, broker: Kafka, database: Database
) -> None:
    """It warns about this. The topic exists from the first run."""
    relay = secured()
    take_back(broker)
    allow(
        broker,
        [right for right in acl_bindings(relay.prefix, exactly_once=False) if not is_of(right, "offsets")],
    )
    for number in (1, 2):
        relay.start().wait_streaming()
        database.execute(f"INSERT INTO orders VALUES ({number})")
        relay.caught_up()
        assert relay.stop() == 0
    told = relay.wait_event(
        "Kafka keeps no position: if the slot is lost while pgrelay is down, that will go unnoticed"
    )
    assert "grant READ on it" in told["reason"]
    assert [record.json_key for record in relay.records("orders")] == [{"id": 1}, {"id": 2}]


def is_of(right: AclBinding, which: str) -> bool:
    if which == "offsets":
        return str(right.name).endswith(".offsets")
    return right.restype == ResourceType[which.upper()] and not str(right.name).endswith(".offsets")


# --- Whom the relay trusts


def test_a_server_of_another_authority_is_refused(
    secured: NewRelay, database: Database, passwords: Secrets, folder: Path
) -> None:
    """The relay refuses it before it sends the password."""
    stranger = Authority(folder, "stranger")
    relay = secured(source={"dsn": dsn(database, stranger, passwords.postgres)})
    assert "certificate verify failed" in last_words(relay.start(), WRONG)


def test_a_server_whose_certificate_names_another_host_is_refused(
    secured: NewRelay, database: Database, authority: Authority, passwords: Secrets
) -> None:
    elsewhere = make_conninfo(dsn(database, authority, passwords.postgres), host="127.0.0.1")
    words = last_words(secured(source={"dsn": elsewhere}).start(), WRONG)
    assert 'server certificate for "localhost"' in words
    assert 'does not match host name "127.0.0.1"' in words


def test_a_server_without_encryption_is_refused(
    secured: NewRelay, database: Database, authority: Authority, passwords: Secrets
) -> None:
    """The server's own rules refuse it, if somebody forgets sslmode."""
    plain = make_conninfo(dsn(database, authority, passwords.postgres), sslmode="disable")
    assert "no pg_hba.conf entry" in last_words(secured(source={"dsn": plain}).start(), WRONG)


def test_a_broker_of_another_authority_is_refused(secured: NewRelay, folder: Path) -> None:
    stranger = Authority(folder, "stranger")
    relay = secured(sink={"kafka": {"ssl.ca.location": str(stranger.file)}})
    assert "certificate verify failed" in last_words(relay.start(), WRONG)


def test_a_broker_whose_certificate_names_another_host_is_refused(secured: NewRelay, broker: Kafka) -> None:
    relay = secured(sink={"kafka": {"bootstrap.servers": f"localhost:{broker.proxy_port}"}})
    assert "certificate verify failed" in last_words(relay.start(), WRONG)


# --- Whom the servers trust


@pytest.mark.parametrize("password", ["", "wrong"])
def test_a_password_that_postgres_refuses_ends_the_relay(
    secured: NewRelay, database: Database, authority: Authority, password: str
) -> None:
    words = last_words(secured(source={"dsn": dsn(database, authority, password)}).start(), WRONG)
    assert ("password authentication failed" if password else "no password supplied") in words


def test_a_password_that_the_broker_refuses_ends_the_relay(secured: NewRelay, database: Database) -> None:
    """It leaves no slot that nobody reads."""
    relay = secured(sink={"kafka": {"sasl.password": "wrong"}}).start()
    assert "correct the credentials in sink.kafka" in last_words(relay, WRONG)
    assert not exists(database, relay.prefix)
