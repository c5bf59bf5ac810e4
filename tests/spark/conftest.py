"""One Spark session for all of these tests, and topics for hand-made records."""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from pgrelay import spark as pg
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
from tests.spark.earlier import leave_target, leave_unmade
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import Topic
from tests.spark.options import FEWER_PROCESSES, OPTIONS, SECRET


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in this hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all in one worker: a second session would take another two gigabytes."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))
            # Py4J leaves closing its sockets to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


def pytest_exception_interact(call: pytest.CallInfo[object]) -> None:
    """A call into Java that a time limit cut leaves its answer in its socket: let the next take another."""
    context = SparkContext._active_spark_context
    if context is None or call.excinfo is None or isinstance(call.excinfo.value, Exception):
        return
    gateway: Any = context._gateway
    connection = gateway._gateway_client.get_thread_connection()
    if connection is not None:
        connection.close()


@pytest.fixture(scope="package", autouse=True)
def collected() -> Iterator[None]:
    """Collect Py4J's garbage here, where its warnings don't matter, not in a later test."""
    yield
    gc.collect()


@pytest.fixture(scope="package")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    leave_target(folder)
    leave_unmade(folder)
    return folder


@pytest.fixture(scope="package")
def spark(warehouse: Path) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as environment:
        # For functions of tests: Spark would run the first python3 of the path.
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        session = pg.session(warehouse, master="local[2]", options=OPTIONS | FEWER_PROCESSES | SECRET)
        yield session
        session.stop()


@pytest.fixture
def topic(spark: SparkSession) -> Topic:
    return Topic(spark)


@pytest.fixture
def handmade(spark: SparkSession, kafka: KafkaServer, prefix: str, tmp_path: Path) -> HandmadeRelay:  # noqa: F811
    return HandmadeRelay(spark, kafka.bootstrap, prefix, tmp_path)


@pytest.fixture
def target(prefix: str) -> str:  # noqa: F811
    """A name for a table of the lake."""
    return f"lake.{prefix}"
