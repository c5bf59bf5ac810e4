"""A Spark session in which everything is set: jars, Java, the catalogs of Delta and Iceberg."""

import os
import re
from collections.abc import Mapping
from typing import Any, Final

import structlog
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession
from pyspark.sql.utils import to_str

from pgrelay.embedded.jars import Progress
from pgrelay.errors import SetupError
from pgrelay.spark.hadoop import absolute
from pgrelay.spark.jars import spark_jars
from pgrelay.spark.java import java_home
from pgrelay.spark.lake.delta_folders import delta_tables
from pgrelay.spark.lake.failures import cause
from pgrelay.spark.names import literal, quoted

_log = structlog.get_logger(__name__)

_EXTENSIONS: Final = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)

_SETTINGS: Final = {
    "spark.sql.extensions": ",".join(_EXTENSIONS),
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalog.iceberg": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.iceberg.type": "hadoop",
    # The cache is one of each session, and a streaming query has its own: ours would read yesterday's table.
    "spark.sql.catalog.iceberg.cache-enabled": "false",
    # 50 by default: a merge of a few rows would take seconds for the table's log alone.
    "spark.databricks.delta.snapshotPartitions": "2",
    # 10 MB by default: a batch of 100,000 rows is more, and a merge would sort all of the target to join it.
    "spark.sql.autoBroadcastJoinThreshold": "64m",
    # A merge has dozens of compiled plans, which the next can use again where they are still there.
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.sql.session.timeZone": "UTC",
    # Years before 1582 and after 9999 as they are.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.log.level": "ERROR",
}

_WAREHOUSE: Final = "spark-warehouse"  # Spark's own default
_MASTER: Final = "local[*]"

# What Hadoop takes for more than itself in a pattern of paths.
_GLOB: Final = re.compile(r"[\\*?\[\]{}]")

# Delta logs an error for a filter of its own whenever it reads a table with deletion vectors: in each merge.
_CRIES_WOLF: Final = "org.apache.spark.sql.delta.DeltaParquetFileFormat"


def session(
    warehouse: str | os.PathLike[str] = _WAREHOUSE,
    master: str | None = _MASTER,
    *,
    options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> SparkSession:
    """A session with Delta as `spark_catalog` and Iceberg as `iceberg`, their tables in `warehouse`.

    The folder's Delta tables are known from the start; Iceberg's are below its folder `iceberg`. `options`
    come before our settings (`{"spark.driver.memory": "4g"}`); `master` None leaves it to `spark-submit`.
    Jars and a Java runtime come by themselves, `progress` or stderr being told. Where a session runs in this
    process already, it is that one, with the options that can change while it runs. Raises SetupError where
    it can't be as asked for, and Unavailable where a jar or Java can't be had.
    """
    location = absolute(warehouse)
    running = _running()
    if running is not None:
        told = {} if warehouse == _WAREHOUSE else {"spark.sql.warehouse.dir": location}
        if master not in (None, _MASTER):
            told["spark.master"] = master
        return _as_asked(running, told | dict(options or {}))
    settings = _SETTINGS | {
        "spark.sql.warehouse.dir": location,
        "spark.sql.catalog.iceberg.warehouse": f"{location}/iceberg",
    }
    builder = SparkSession.builder.appName("pgrelay")
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            settings["spark.sql.shuffle.partitions"] = str(os.cpu_count() or 2)
            # Delta's VACUUM lists files in so many tasks, 10,000 by default.
            settings["spark.sql.sources.parallelPartitionDiscovery.parallelism"] = str(os.cpu_count() or 2)
            # Rows are short-lived objects by the million: the barriers of the default collector cost more
            # than its short pauses give.
            settings["spark.driver.extraJavaOptions"] = "-XX:+UseParallelGC"
            settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        settings["spark.jars"] = ",".join(map(str, spark_jars(progress)))
        os.environ["JAVA_HOME"] = str(java_home())
    else:
        _refuse_without_jars()
    for key, value in (settings | dict(options or {})).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    _silence(spark, _CRIES_WOLF)
    _attach_tables(spark, location)
    return spark


def _running() -> SparkSession | None:
    """The process's session, whichever thread made it; the thread's own, where it has one."""
    try:
        running = SparkSession.active()
    except PySparkRuntimeError:
        return None
    return None if running.sparkContext._jsc is None else running  # whose context was stopped by itself


def _refuse_without_jars() -> None:
    """Raise SetupError where Java runs already, started by another, and what we need was not given to it."""
    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    if not any(jvm.org.apache.spark.util.Utils.classIsLoadable(extension) for extension in _EXTENSIONS):
        raise SetupError(
            "Spark's Java process, which was started without pgrelay.spark.session, has the jars of neither "
            "Delta nor Iceberg: start Python anew, and this session first; or give spark_jars() to that "
            "process, as by spark-submit --jars"
        )


def _as_asked(running: SparkSession, told: Mapping[str, str]) -> SparkSession:
    """The session that runs, with these settings. Raises SetupError where it can't have them."""
    extensions = running.conf.get("spark.sql.extensions", None) or ""
    if not any(extension in extensions for extension in _EXTENSIONS):
        raise SetupError(
            "the Spark session that runs in this process has neither Delta nor Iceberg: start Python anew, "
            f"and this session first, or start that one with {_EXTENSIONS[0]} in spark.sql.extensions, and "
            "spark_jars() in spark.jars"
        )
    for key, value in told.items():
        if running.conf.isModifiable(key):
            running.conf.set(key, value)
        elif _plain(has := running.conf.get(key, None) or "") != _plain(to_str(value) or ""):
            # Its Java process stays, with the memory and options that it was started with.
            cure = "start Python anew" if key.startswith("spark.driver.") else "stop() it first"
            raise SetupError(
                f"the Spark session that runs in this process has {key} = {has!r}, not {value!r}: {cure}, or "
                "leave that out"
            )
    return running


def _plain(value: str) -> str:
    """A setting without what is the same in a folder's spellings."""
    return re.sub("^file:/*", "/", value).rstrip("/")


def _silence(spark: SparkSession, logger: str) -> None:
    jvm = spark._jvm
    assert jvm is not None
    log4j = jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel(logger, log4j.Level.OFF)


def _attach_tables(spark: SparkSession, location: str) -> None:
    """Make the Delta tables of the warehouse known: the catalog of a session is empty at its start.

    One that can't be a table of the session's catalog is warned of: its name, or what a later Delta made.
    """
    plain = _GLOB.sub(r"\\\g<0>", location)
    for pattern, database in (("*", "default"), ("*.db/*", None)):
        for folder in delta_tables(spark, f"{plain}/{pattern}"):
            named = quoted(database or folder.getParent().getName().removesuffix(".db"))
            name = f"{named}.{quoted(folder.getName())}"
            place = folder.toString()
            try:
                spark.sql(f"CREATE DATABASE IF NOT EXISTS {named}")
                spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING delta LOCATION {literal(place)}")
            except (CapturedException, Py4JJavaError) as error:
                _log.warning(
                    "a folder of the warehouse has a Delta table that the session can't have",
                    folder=place,
                    reason=cause(error),
                )
