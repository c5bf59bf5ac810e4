"""Kafka's own clients in Spark's JVM, and the offsets at which partitions begin and end."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pgrelay.errors import SetupError
from pgrelay.spark.failures import root_cause
from pgrelay.spark.kafka import CLIENT
from pgrelay.spark.mirrors.checkpoint import Offsets

# How long a start waits for answers that it can do without, instead of Kafka's minute.
BRIEFLY: Final = {"default.api.timeout.ms": "10000", "request.timeout.ms": "10000"}

_REFUSALS: Final = ("org.apache.kafka.common.config.ConfigException", "java.lang.IllegalArgumentException")
_NO_FILE: Final = ("java.nio.file.NoSuchFileException", "java.io.FileNotFoundException")
# Also for an identity provider that is away.
_LOGIN: Final = "javax.security.auth.login.LoginException"

_BYTES: Final = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


def client_options(servers: str, options: Mapping[str, str] | None) -> dict[str, str]:
    """Those options of the Kafka source that are the Kafka client's, and ours for it."""
    client = {name: value for name, value in (options or {}).items() if name.startswith("kafka.")}
    return {**CLIENT, **client, "kafka.bootstrap.servers": servers}


@contextmanager
def _made_as_told() -> Iterator[None]:
    """Raises SetupError if Kafka's client does not accept its settings; other errors pass."""
    try:
        yield
    except Py4JJavaError as error:
        kind, _, told = root_cause(error).partition(": ")
        # A name that can't be resolved may be one tomorrow.
        wrong = kind in _REFUSALS and "resolvable" not in told
        unknown = kind == _LOGIN and "LoginModule" in told
        missing = kind in _NO_FILE
        if not (wrong or unknown or missing):
            raise
        if missing:
            told = f"no such file: {told}"
        if "JAAS" in told:  # which may quote a piece of the password
            told = 'kafka.sasl.jaas.config is not of the form: org.apache...LoginModule required key="value";'
        raise SetupError(
            f"Kafka's client refuses its settings: {told}; correct servers, or the options"
        ) from None


class KafkaCluster:
    """Asks a cluster. `options` are those of Spark's Kafka source.

    Its errors are Py4J's, but SetupError if Kafka's client does not accept the options.
    """

    def __init__(self, spark: SparkSession, servers: str, options: Mapping[str, str] | None) -> None:
        self._spark = spark
        self._options = client_options(servers, options)

    def ends(self, wanted: Offsets) -> Offsets:
        """Where these partitions end now."""
        with self._consumer() as consumer:
            return self._asked(consumer.endOffsets, wanted)

    def firsts(self, topics: Iterable[str]) -> Offsets:
        """The first offset that each partition still has, for those topics that exist."""
        with self._consumer(BRIEFLY) as consumer:
            there = consumer.listTopics()
            wanted = {topic: [each.partition() for each in there.get(topic) or ()] for topic in topics}
            return self._asked(consumer.beginningOffsets, wanted)

    def is_written(self, topic: str) -> bool:
        """Whether a topic's first partition has or had records, even of an open transaction."""
        with self._consumer({"isolation.level": "read_uncommitted"}) as consumer:
            there = consumer.listTopics().containsKey(topic)
            return bool(there and self._asked(consumer.endOffsets, {topic: [0]})[topic][0])

    @contextmanager
    def admin(self) -> Iterator[Any]:
        """Kafka's admin client in Spark's JVM."""
        jvm: Any = self._spark._jvm
        with _made_as_told():
            client = jvm.org.apache.kafka.clients.admin.AdminClient.create(self._settings(BRIEFLY))
        try:
            yield client
        finally:
            client.close()

    @contextmanager
    def _consumer(self, more: Mapping[str, str] | None = None) -> Iterator[Any]:
        jvm: Any = self._spark._jvm
        bytes_alone = {"key.deserializer": _BYTES, "value.deserializer": _BYTES}
        with _made_as_told():
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

    def _asked(self, ask: Callable[[Any], Any], wanted: Mapping[str, Iterable[int]]) -> Offsets:
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
