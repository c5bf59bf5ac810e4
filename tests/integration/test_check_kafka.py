"""What a check finds at brokers that can't be reached, deny access, or have unsuitable topics."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclBinding, AdminClient  # type: ignore[attr-defined]

from pgrelay.check import Finding
from pgrelay.embedded.jars import Unavailable
from pgrelay.embedded.kafka import Kafka
from tests.integration.acls import add_acls
from tests.integration.databases import Database
from tests.integration.proxy import Proxy
from tests.integration.servers import KafkaServer
from tests.integration.test_check import Setup, only
from tests.unavailable import skip

PASSWORD = secrets.token_hex(8)
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"

# Clients of the second listener must authenticate, and have only the rights that they were given.
SECURED = {
    "listener.security.protocol.map": "DIRECT:PLAINTEXT,PROXIED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "listener.name.proxied.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.proxied.plain.sasl.jaas.config": f'{JAAS} user_relay="{PASSWORD}";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture
def setup(database: Database, kafka: KafkaServer, prefix: str, tmp_path: Path) -> Setup:
    return Setup(database, kafka, prefix, tmp_path)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short timeouts: a broker on this machine that doesn't answer soon never will."""
    monkeypatch.setattr("pgrelay.kafka.cluster._TIMEOUT_S", 2.0)


@pytest.fixture(scope="module")
def secured() -> Iterator[Kafka]:
    with ExitStack() as stack:
        try:
            kafka = stack.enter_context(Kafka(settings=SECURED))
        except Unavailable as error:
            skip(error)
        stack.enter_context(Proxy(kafka.proxy_target_port, kafka.proxy_port))
        # The first authentication at a broker takes longest, and some tests have short timeouts.
        AdminClient(credentials(kafka)).list_topics(timeout=60)
        yield kafka


def credentials(secured: Kafka) -> dict[str, Any]:
    """The options of the client that may connect."""
    return {
        "bootstrap.servers": secured.proxied_bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "relay",
        "sasl.password": PASSWORD,
    }


@pytest.fixture
def guarded(setup: Setup, secured: Kafka) -> Setup:
    """A setup whose broker requires authentication."""
    setup.bootstrap = secured.bootstrap
    setup.sink["kafka"] = credentials(secured)
    return setup


def allow(secured: Kafka, prefix: str, operation: str) -> None:
    """Give the relay a right on the topics with this prefix."""
    binding = AclBinding("topic", prefix, "prefixed", "User:relay", "*", operation, "allow")
    add_acls(AdminClient({"bootstrap.servers": secured.bootstrap}), [binding])


def errors(findings: list[Finding]) -> list[str]:
    return [finding.what for finding in findings if finding.level == "error"]


@pytest.mark.usefixtures("impatient")
async def test_a_broker_that_is_away_is_reported_with_its_cure(setup: Setup) -> None:
    setup.sink["kafka"] = {"bootstrap.servers": "127.0.0.1:1"}
    finding = only(await setup.trouble())
    assert finding.what.startswith("Kafka does not answer at 127.0.0.1:")
    assert finding.why.endswith("Connection refused")
    assert finding.cure.startswith("start the broker")


@pytest.mark.usefixtures("impatient")
async def test_a_server_that_is_no_broker_is_reported(setup: Setup) -> None:
    with setup.database.connect() as connection:
        setup.sink["kafka"] = {"bootstrap.servers": f"127.0.0.1:{connection.info.port}"}
    finding = only(await setup.trouble())
    assert "a Kafka listener" in finding.cure


async def test_an_unknown_client_option_is_an_error(setup: Setup) -> None:
    setup.sink["kafka"]["liinger.ms"] = 5
    finding = only(await setup.trouble())
    assert finding.level == "error"
    assert 'sink.kafka: No such configuration property: "liinger.ms"' in finding.what


async def test_more_replicas_than_brokers_is_an_error(setup: Setup) -> None:
    setup.sink["replication_factor"] = 3
    found = await setup.trouble()
    assert found[0].what.startswith("4 topics can't be created")
    assert found[0].cure == "set sink.replication_factor (now 3) to 1 or less"


async def test_more_partitions_than_one_request_may_create_are_ok(setup: Setup) -> None:
    """Each topic by itself is fine."""
    setup.sink["partitions"] = 6_000
    assert await setup.trouble() == []


async def test_an_unknown_topic_setting_is_an_error(setup: Setup) -> None:
    setup.sink["topic_config"] = {"retention.weeks": 1}
    finding = only(await setup.trouble())
    assert finding.why == "Unknown topic config name: retention.weeks"
    assert "sink.topic_config" in finding.cure


async def test_unsuitable_topics_are_reported(setup: Setup) -> None:
    setup.execute("ALTER TABLE orders DROP CONSTRAINT orders_pkey; ALTER TABLE orders REPLICA IDENTITY FULL")
    setup.create_topic(
        "public.orders",
        3,
        cleanup_policy="compact",
        max_message_bytes="1000",
        min_insync_replicas="2",
    )
    setup.create_topic("schema")
    compacted, fleeting, replicas, sizes = await setup.trouble()
    assert (compacted.level, compacted.what) == (
        "error",
        f"1 compacted topic for records without a key: {setup.prefix}.public.orders",
    )
    assert fleeting.what == f"topic {setup.prefix}.schema does not keep every schema"
    assert (replicas.level, sizes.level) == ("error", "warning")
    assert "1000 B" in sizes.why


async def test_unsuitable_settings_for_exactly_once_are_reported(setup: Setup) -> None:
    setup.sink["delivery"] = "exactly_once"
    found = await setup.check()
    assert {finding.level for finding in found} == {"ok"}
    assert any(f"{setup.prefix}.offsets" in finding.what for finding in found)
    setup.sink["kafka"]["transaction.timeout.ms"] = "900001"
    cure = "set transaction.timeout.ms in sink.kafka to 900000 or less"
    assert only(await setup.trouble()).cure.startswith(cure)
    del setup.sink["kafka"]["transaction.timeout.ms"]
    setup.create_topic("offsets")
    finding = only(await setup.trouble())
    assert finding.what == f"topic {setup.prefix}.offsets deletes records by age, also the position"


async def test_truncates_into_a_compacted_topic_are_a_warning(setup: Setup) -> None:
    setup.sink["topic_config"] = {"cleanup.policy": "compact"}
    finding = only(await setup.trouble())
    assert (finding.level, finding.why) == (
        "warning",
        "the record of a TRUNCATE has no key: a compacted topic refuses it, and a run stops",
    )
    setup.publish("FOR TABLE orders WITH (publish = 'insert, update, delete')")
    assert await setup.trouble() == []


def store_large_value(setup: Setup) -> None:
    setup.execute("ALTER TABLE orders ALTER note SET STORAGE EXTERNAL")
    setup.execute("INSERT INTO orders VALUES (1, repeat('x', 9000))")
    setup.execute("VACUUM orders")


async def test_large_values_in_a_compacted_topic_are_a_warning(setup: Setup) -> None:
    setup.sink["topic_config"] = {"cleanup.policy": "compact"}
    setup.publish("FOR TABLE orders WITH (publish = 'insert, update, delete')")
    assert await setup.trouble() == []
    store_large_value(setup)
    finding = only(await setup.trouble())
    assert finding.level == "warning"
    assert finding.what.endswith(f"of tables with large values (TOAST): {setup.prefix}.public.orders")
    setup.execute("ALTER TABLE orders REPLICA IDENTITY FULL")
    assert await setup.trouble() == []


async def test_large_values_of_a_partition_are_its_roots(setup: Setup) -> None:
    """It is published as its root, whose topic has its rows."""
    setup.execute("DROP TABLE orders")
    setup.execute("CREATE TABLE root (id int PRIMARY KEY, note text) PARTITION BY RANGE (id)")
    setup.execute("CREATE TABLE orders PARTITION OF root DEFAULT")
    store_large_value(setup)
    setup.sink["topic_config"] = {"cleanup.policy": "compact"}
    setup.publish(
        "FOR TABLE root WITH (publish = 'insert, update, delete', publish_via_partition_root = true)"
    )
    assert f"{setup.prefix}.public.root" in only(await setup.trouble()).what


@pytest.mark.usefixtures("impatient")
async def test_a_wrong_password_is_reported(guarded: Setup) -> None:
    guarded.sink["kafka"]["sasl.password"] = "wrong"
    finding = only(await guarded.trouble())
    assert "Authentication failed" in finding.why
    assert finding.cure.startswith("correct the credentials in sink.kafka: sasl.mechanism")


@pytest.mark.usefixtures("impatient")
async def test_a_listener_with_another_protocol_is_reported(guarded: Setup, secured: Kafka) -> None:
    guarded.sink["kafka"] = {"bootstrap.servers": secured.proxied_bootstrap}
    finding = only(await guarded.trouble())
    assert "security.protocol" in finding.cure


@pytest.mark.usefixtures("impatient")
async def test_an_advertised_address_that_does_not_answer_is_reported(
    setup: Setup, embedded_kafka: Kafka
) -> None:
    # This listener sends its clients to a proxy, which does not run.
    setup.sink["kafka"] = {"bootstrap.servers": f"127.0.0.1:{embedded_kafka.proxy_target_port}"}
    finding = only(await setup.trouble())
    assert finding.what.startswith(f"broker 1 advertises 127.0.0.1:{embedded_kafka.proxy_port},")
    assert "advertised.listeners" in finding.cure


async def test_each_missing_right_is_reported_in_turn(guarded: Setup, secured: Kafka) -> None:
    finding = only(await guarded.trouble())
    assert finding.what.startswith("4 topics can't be created")
    assert "--operation Create --operation Write" in finding.cure
    allow(secured, guarded.prefix, "create")
    untold = only(await guarded.trouble())
    assert (untold.level, untold.cure) == (
        "warning",
        f"kafka-acls.sh --list --topic {guarded.prefix}.public.orders --resource-pattern-type match has to "
        "show Write; check again once the relay has started",
    )
    guarded.create_topic("public.orders")
    hidden = only(await guarded.trouble())
    assert (hidden.level, hidden.what) == (
        "error",
        f"no right to see 1 topic: {guarded.prefix}.public.orders",
    )
    assert hidden.cure.endswith(
        f"--operation Describe --operation Write --topic {guarded.prefix}.public.orders"
    )
    allow(secured, guarded.prefix, "describe")
    assert errors(await guarded.trouble()) == [
        f"no right to write to 1 topic: {guarded.prefix}.public.orders"
    ]
    allow(secured, guarded.prefix, "write")
    unread = only(await guarded.trouble())
    assert (unread.level, unread.what) == (
        "warning",
        f"no right to read the settings of 1 topic: {guarded.prefix}.public.orders",
    )
    allow(secured, guarded.prefix, "describe_configs")
    assert await guarded.trouble() == []


async def test_a_missing_right_to_read_the_position_is_an_error(guarded: Setup, secured: Kafka) -> None:
    guarded.sink["delivery"] = "exactly_once"
    for operation in ("create", "describe", "describe_configs", "write"):
        allow(secured, guarded.prefix, operation)
    guarded.create_topic("offsets", cleanup_policy="compact")
    assert errors(await guarded.trouble()) == [f"no right to read topic {guarded.prefix}.offsets"]
    allow(secured, guarded.prefix, "read")
    assert await guarded.trouble() == []
