"""Kafka's own clients in Spark's JVM, and the offsets at which partitions begin and end."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pgrelay.errors import SetupError
from pgrelay.spark.failures import root_cause
from pgrelay.spark.kafka import CLIENT_DEFAULTS
from pgrelay.spark.mirrors.checkpoint import Offsets

# For answers that a start can do without: it waits for seconds, not for Kafka's minute.
SHORT_TIMEOUTS: Final = {"default.api.timeout.ms": "10000", "request.timeout.ms": "10000"}

_CONFIG_ERRORS: Final = (
    "org.apache.kafka.common.config.ConfigException",
    "java.lang.IllegalArgumentException",
)
_MISSING_FILE: Final = ("java.nio.file.NoSuchFileException", "java.io.FileNotFoundException")
# Also raised while an identity provider is down.
_LOGIN: Final = "javax.security.auth.login.LoginException"

_BYTES: Final = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


def client_options(servers: str, options: Mapping[str, str] | None) -> dict[str, str]:
    """The Kafka client's options among those of the Kafka source, and our own for it."""
    client = {name: value for name, value in (options or {}).items() if name.startswith("kafka.")}
    return {**CLIENT_DEFAULTS, **client, "kafka.bootstrap.servers": servers}


@contextmanager
def _wrap_config_errors() -> Iterator[None]:
    """Raises SetupError if Kafka's client does not accept its settings; other errors pass."""
    try:
        yield
    except Py4JJavaError as error:
        kind, _, text = root_cause(error).partition(": ")
        # A name that can't be resolved now may resolve later.
        wrong = kind in _CONFIG_ERRORS and "resolvable" not in text
        no_login_module = kind == _LOGIN and "LoginModule" in text
        missing = kind in _MISSING_FILE
        if not (wrong or no_login_module or missing):
            raise
        if missing:
            text = f"no such file: {text}"
        if "JAAS" in text:  # which may quote a piece of the password
            text = 'kafka.sasl.jaas.config is not of the form: org.apache...LoginModule required key="value";'
        raise SetupError(
            f"Kafka's client refuses its settings: {text}; correct servers, or the options"
        ) from None


class KafkaCluster:
    """A Kafka cluster to ask. `options` are those of Spark's Kafka source.

    Raises Py4J's errors, but SetupError if Kafka's client does not accept the options.
    """

    def __init__(self, spark: SparkSession, servers: str, options: Mapping[str, str] | None) -> None:
        self._spark = spark
        self._options = client_options(servers, options)

    def end_offsets(self, wanted: Offsets) -> Offsets:
        """Where these partitions end now."""
        with self._consumer() as consumer:
            return self._offsets(consumer.endOffsets, wanted)

    def beginning_offsets(self, topics: Iterable[str]) -> Offsets:
        """The first offset that each partition still has, for those topics that exist."""
        with self._consumer(SHORT_TIMEOUTS) as consumer:
            found = consumer.listTopics()
            wanted = {topic: [each.partition() for each in found.get(topic) or ()] for topic in topics}
            return self._offsets(consumer.beginningOffsets, wanted)

    def has_records(self, topic: str) -> bool:
        """Whether a topic's first partition has or had records, even uncommitted ones."""
        with self._consumer({"isolation.level": "read_uncommitted"}) as consumer:
            exists = consumer.listTopics().containsKey(topic)
            return bool(exists and self._offsets(consumer.endOffsets, {topic: [0]})[topic][0])

    @contextmanager
    def admin(self) -> Iterator[Any]:
        """Kafka's admin client in Spark's JVM."""
        jvm: Any = self._spark._jvm
        with _wrap_config_errors():
            client = jvm.org.apache.kafka.clients.admin.AdminClient.create(self._settings(SHORT_TIMEOUTS))
        try:
            yield client
        finally:
            client.close()

    @contextmanager
    def _consumer(self, more: Mapping[str, str] | None = None) -> Iterator[Any]:
        jvm: Any = self._spark._jvm
        bytes_alone = {"key.deserializer": _BYTES, "value.deserializer": _BYTES}
        with _wrap_config_errors():
            consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(
                self._settings({**bytes_alone, **(more or {})})
            )
        try:
            yield consumer
        finally:
            consumer.close()

    def _settings(self, more: Mapping[str, str]) -> dict[str, str]:
        """The options, and `more`, under Kafka's own names."""
        return {name.removeprefix("kafka."): value for name, value in {**self._options, **more}.items()}

    def _offsets(self, ask: Callable[[Any], Any], wanted: Mapping[str, Iterable[int]]) -> Offsets:
        """The offsets of these partitions by `ask`, a method of Kafka's client."""
        jvm: Any = self._spark._jvm
        of = jvm.org.apache.kafka.common.TopicPartition
        partitions = {
            (topic, number): of(topic, number) for topic, numbers in wanted.items() for number in numbers
        }
        found = ask(list(partitions.values()))
        offsets: Offsets = {topic: {} for topic in wanted}
        for (topic, number), partition in partitions.items():
            offsets[topic][number] = found.get(partition)
        return offsets
