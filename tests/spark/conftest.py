"""One Spark session for all of these tests, and topics of a real broker for hand-made records."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pgrelay import spark as pg
from pgrelay.spark.schema import TableSchema
from tests.integration.conftest import (  # noqa: F401
    database,
    kafka,
    new_database,
    new_relay,
    postgres,
    prefix,
    schema_registry,
    servers,
    version,
)
from tests.integration.servers import KafkaServer
from tests.integration.topics import create_topic
from tests.spark.handmade import HandmadeRelay
from tests.spark.options import OPTIONS
from tests.spark.records import Message, produce


@pytest.hookimpl(tryfirst=True)  # it is in this hook that xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All in one worker: a second session would be another two gigabytes."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))
            # Py4J leaves its sockets to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="package", autouse=True)
def collected() -> Iterator[None]:
    """Py4J's garbage is collected where its warnings mean nothing, not in some test that follows."""
    yield
    gc.collect()


@pytest.fixture(scope="package")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="package")
def spark(warehouse: Path) -> Iterator[SparkSession]:
    session = pg.session(warehouse, master="local[2]", options=OPTIONS)
    yield session
    session.stop()


class Topic:
    """A topic of the broker: records in, and changes out."""

    def __init__(self, spark: SparkSession, bootstrap: str, name: str) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.name = name
        self._ends: dict[int, int] = {}

    def write(self, *messages: Message) -> None:
        produce(self.bootstrap, self.name, messages)

    def changes(self, schema: TableSchema, **options: Any) -> DataFrame:
        """All records of the topic as changes."""
        return pg.read_changes(self.spark, self.bootstrap, self.name, schema=schema, **options)


@pytest.fixture
def new_topic(spark: SparkSession, kafka: KafkaServer, prefix: str) -> Callable[..., Topic]:  # noqa: F811
    """Makes topics named as those of the test's relay would be."""

    def make(table: str = "t", partitions: int = 1) -> Topic:
        name = f"{prefix}.public.{table}"
        create_topic(kafka.bootstrap, name, partitions)
        return Topic(spark, kafka.bootstrap, name)

    return make


@pytest.fixture
def handmade(spark: SparkSession, kafka: KafkaServer, prefix: str, tmp_path: Path) -> HandmadeRelay:  # noqa: F811
    return HandmadeRelay(spark, kafka.bootstrap, prefix, tmp_path)


@pytest.fixture
def target(prefix: str) -> str:  # noqa: F811
    """A name for a table of the lake."""
    return f"lake.{prefix}"
