"""A mirror as docs/security.md sets it up: TLS, a password and the least rights at the broker."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pgrelay import spark as pg
from pgrelay.embedded.kafka import Kafka
from pgrelay.spark.schemas.columns import Column
from tests.integration.documented import acl_bindings_of_mirrors
from tests.integration.proxy import Proxy
from tests.integration.security.certificates import Authority
from tests.integration.security.conftest import (  # noqa: F401
    Secrets,
    allow,
    authority,
    broker,
    folder,
    no_rights,
    passwords,
    proxy,
)
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import change, rows

Mirror = Callable[[], StreamingQuery]

ID = Column("id", "int4", key=True, encoding="integer")


@pytest.fixture
def written(spark: SparkSession, broker: Kafka, prefix: str, tmp_path: Path) -> HandmadeRelay:  # noqa: F811
    """A relay whose table `a` has two rows; it writes through the broker's own listener."""
    relay = HandmadeRelay(spark, broker.bootstrap, prefix, tmp_path)
    relay.table("a", ID)
    relay.write("a", *(change("c", 10 + n, after={"id": n}) for n in range(2)))
    return relay


@pytest.fixture
def options(
    broker: Kafka,  # noqa: F811
    proxy: Proxy,  # noqa: F811
    authority: Authority,  # noqa: F811
    passwords: Secrets,  # noqa: F811
) -> dict[str, str]:
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    return {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(authority.file),
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{login} username="mirror" password="{passwords.kafka}";',
    }


@pytest.fixture
def mirror(
    written: HandmadeRelay,
    broker: Kafka,  # noqa: F811
    options: dict[str, str],
    target: str,
    tmp_path: Path,
) -> Mirror:
    """Starts the mirror of `a`, which ends when it has taken in what is there."""
    return lambda: pg.mirror(
        written.spark,
        broker.proxied_bootstrap,
        {written.topic("a"): target},
        prefix=written.prefix,
        checkpoint=str(tmp_path / "secured"),
        using="iceberg",
        options=options,
        trigger={"availableNow": True},
    )


def test_rows_are_mirrored_with_only_the_documented_rights(
    mirror: Mirror,
    written: HandmadeRelay,
    broker: Kafka,  # noqa: F811
    target: str,
) -> None:
    allow(broker, acl_bindings_of_mirrors(written.prefix))
    mirror().awaitTermination()
    assert rows(written.spark.table(f"iceberg.{target}"), "id") == {(0,): 1, (1,): 1}


def test_without_the_right_to_read_its_topics_a_mirror_ends(
    mirror: Mirror,
    written: HandmadeRelay,
    broker: Kafka,  # noqa: F811
) -> None:
    rights = acl_bindings_of_mirrors(written.prefix)
    allow(broker, [right for right in rights if right.operation != AclOperation.READ])
    with pytest.raises(StreamingQueryException) as ended:
        mirror().awaitTermination()
    assert "Not authorized to access topics" in str(ended.value)
