"""Debezium, the reference: its Postgres connector in Kafka Connect, standalone, set up as in its manual.

Both configurations write JSON without schemas, as pgrelay does by default. Connect's producers wait for
acks=all by default. `tuned` has larger batches and queues, shorter waits, and pgrelay's compression.
"""

from collections.abc import Mapping
from pathlib import Path

import jgo

from bench.contenders import Command, Contender, Job
from bench.stage import PUBLICATION
from pgrelay.embedded.cache import cache_lock
from pgrelay.embedded.jars import fetch_jars, java
from pgrelay.embedded.kafka_jars import KAFKA_VERSION
from pgrelay.embedded.ports import free_port

VERSION = "3.7.0.Final"

_JETTY = "12.0.34"

# Connect's POM gives no version for some parts of Jetty, so jgo would take the newest, and no log binding.
_ENDPOINT = "+".join(
    (
        f"org.apache.kafka:connect-runtime:{KAFKA_VERSION}",
        f"org.apache.kafka:connect-json:{KAFKA_VERSION}",
        f"io.debezium:debezium-connector-postgres:{VERSION}",
        f"org.eclipse.jetty.ee10:jetty-ee10-servlet:{_JETTY}",
        f"org.eclipse.jetty:jetty-security:{_JETTY}",
        f"org.eclipse.jetty:jetty-session:{_JETTY}",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
    )
)

# Debezium writes a tstzrange in Java's time zone.
_JVM_OPTIONS = ("-Xms256m", "-Xmx2g", "-Duser.timezone=UTC")

_CONNECTOR = {
    "name": "bench",
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "tasks.max": "1",
    "plugin.name": "pgoutput",
    "publication.name": PUBLICATION,
    "publication.autocreate.mode": "disabled",
    "snapshot.mode": "no_data",
    "database.hostname": "127.0.0.1",
    "database.user": "postgres",
    "database.password": "none",
}
_TUNED = {
    "max.batch.size": "16384",
    "max.queue.size": "65536",
    "poll.interval.ms": "5",
    "producer.override.batch.size": "1000000",
    "producer.override.linger.ms": "5",
    "producer.override.compression.type": "lz4",
    "producer.override.buffer.memory": "67108864",
}


def debezium() -> list[Contender]:
    """With its defaults, and tuned. Raises whatever jgo raises if it can't fetch the jars."""
    return [configured("debezium", {}), configured("debezium tuned", _TUNED)]


def configured(name: str, more: Mapping[str, str]) -> Contender:
    """A Debezium whose connector has `more` options over its defaults. Raises as `debezium` does."""
    # Without a lock, jgo fails on files that another process is still downloading to its repository.
    with cache_lock("jars"):
        artifacts = jgo.resolve(_ENDPOINT)
    jars = fetch_jars([f"{each.groupId}:{each.artifactId}:{each.version}" for each in artifacts])
    class_path = ":".join(map(str, jars))

    def command(job: Job) -> Command:
        worker, connector = _configured(job, more)
        return Command(
            [
                java(),
                *_JVM_OPTIONS,
                "-cp",
                class_path,
                "org.apache.kafka.connect.cli.ConnectStandalone",
                worker,
                connector,
            ]
        )

    return Contender(name, command, confirms=False, peer=True)


def _configured(job: Job, more: Mapping[str, str]) -> tuple[Path, Path]:
    offsets = job.folder / f"{job.slot}.offsets"
    offsets.unlink(missing_ok=True)
    worker = {
        "bootstrap.servers": job.bootstrap,
        "listeners": f"http://127.0.0.1:{free_port()}",
        "offset.storage.file.filename": str(offsets),
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    connector = {
        **_CONNECTOR,
        "database.port": str(job.port),
        "database.dbname": job.database,
        "slot.name": job.slot,
        "topic.prefix": job.prefix,
        **more,
    }
    paths = job.folder / f"{job.slot}.worker.properties", job.folder / f"{job.slot}.connector.properties"
    for path, properties in zip(paths, (worker, connector), strict=True):
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return paths
