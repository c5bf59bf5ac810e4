"""A Spark session with everything set up: jars, Java, the catalogs of Delta and Iceberg."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import structlog
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession
from pyspark.sql.utils import to_str

from pgrelay.early_stop import defer_signals, preserve_sigint_handler
from pgrelay.embedded.jars import Progress
from pgrelay.errors import SetupError
from pgrelay.spark.failures import root_cause, wrap_invalid_arguments
from pgrelay.spark.hadoop import absolute_location
from pgrelay.spark.jars import spark_jars
from pgrelay.spark.java import java_home
from pgrelay.spark.lake.delta_folders import delta_tables
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
    # Each session has its own cache, and a streaming query its own session: ours would read outdated tables.
    "spark.sql.catalog.iceberg.cache-enabled": "false",
    # Iceberg's vectorized reader leaks an object on the heap for each file that it reads
    # (apache/iceberg#13937). A mirror reads all of a target's files in each batch.
    "spark.sql.iceberg.vectorization.enabled": "false",
    # 50 by default: a merge of a few rows would take seconds for the table's log alone.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Where Java's time zone is not UTC, Delta checks this list, which nothing else reads, after each commit.
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
    # 10 MB by default: a batch of 100,000 rows is larger, and a merge would sort the whole target to join it.
    "spark.sql.autoBroadcastJoinThreshold": "64m",
    # A merge has dozens of compiled plans, which the next merge reuses if they are still cached.
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.sql.session.timeZone": "UTC",
    # A column named ${env:HOME} would get that variable's value for a name, also in our own statements.
    "spark.sql.variable.substitute": "false",
    # Keep years before 1582 and after 9999 as they are.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.log.level": "ERROR",
}

_WAREHOUSE: Final = "spark-warehouse"  # Spark's own default
_MASTER: Final = "local[*]"

# Masters that run everything in the driver's own process.
_IN_PROCESS_MASTER: Final = re.compile(r"local(\[[^]]*\])?")
_JARS: Final = "spark.jars"
# Names of settings that Spark itself redacts (`spark.redaction.regex`), and others like them.
_SECRET: Final = re.compile(
    r"(?i)secret|password|token|(access|account|private|encryption)[.]?key|passphrase|user[.]info|jaas|credential"
)
_CLASS_PATH: Final = "spark.driver.extraClassPath"

# Characters that are special in Hadoop's path patterns.
_GLOB: Final = re.compile(r"[\\*?\[\]{}]")

# Delta logs an error about its own filter whenever it reads a table with deletion vectors: in each merge.
_NOISY_LOGGER: Final = "org.apache.spark.sql.delta.DeltaParquetFileFormat"


def session(
    warehouse: str | os.PathLike[str] = _WAREHOUSE,
    master: str | None = _MASTER,
    *,
    options: Mapping[str, str] | None = None,
    jars: Sequence[str] = (),
    progress: Progress | None = None,
) -> SparkSession:
    """A session with Delta as `spark_catalog` and Iceberg as `iceberg`, their tables in `warehouse`.

    The folder's Delta tables are known from the start; Iceberg's are in its folder `iceberg`. `options`
    override our settings (`{"spark.driver.memory": "4g"}`); `master` None leaves it to `spark-submit`.
    Missing jars are downloaded, and `progress` follows that (by default lines on stderr); `jars` has Maven
    coordinates of more of them (`org.apache.hadoop:hadoop-aws:3.4.2`), see `spark_jars`. If this process
    already has a session, returns that one, with its jars, and with those options that can change while it
    runs. Raises SetupError if it can't be as asked for, and Unavailable if a jar or Java can't be had.
    """
    if not isinstance(warehouse, str | os.PathLike):
        raise SetupError(f"warehouse={warehouse!r}: write a folder or a URI")
    location, chosen = absolute_location(warehouse), _validated_options(options)
    running = _active_session()
    if running is not None:
        asked = {} if warehouse == _WAREHOUSE else {"spark.sql.warehouse.dir": location}
        if master not in (None, _MASTER):
            asked["spark.master"] = master
        return _reconfigured(running, asked | chosen)
    settings = _SETTINGS | {
        "spark.sql.warehouse.dir": location,
        "spark.sql.catalog.iceberg.warehouse": f"{location}/iceberg",
    }
    builder = SparkSession.builder.appName("pgrelay")
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            settings |= _local_settings()
    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        settings |= _jar_settings(spark_jars(progress, more=jars), master, chosen)
        os.environ["JAVA_HOME"] = str(java_home())
        _start_java(settings | chosen, master)
    else:
        _refuse_without_jars()
    _refuse_invalid_options(chosen)
    for key, value in (settings | chosen).items():
        builder = builder.config(key, value)
    with preserve_sigint_handler():  # PySpark's handler would call Java in the middle of another call
        spark = builder.getOrCreate()
    silence_logger(spark, _NOISY_LOGGER)
    _register_tables(spark, location)
    return spark


def _validated_options(options: Mapping[str, str] | None) -> dict[str, str]:
    """The user's settings. Raises SetupError for what can't be a setting."""
    if not isinstance(options or {}, Mapping):
        raise SetupError(f"options={options!r}: write a dict of Spark's settings")
    chosen = dict(options or {})
    for key, value in chosen.items():
        if not isinstance(key, str):
            raise SetupError(f"options: {key!r} is no setting's name: write a text")
        if value is None:
            raise SetupError(f"options: {key} has no value: write one, or leave it out")
    return chosen


def _refuse_invalid_options(options: Mapping[str, str]) -> None:
    """Raise SetupError for a value that Spark SQL does not accept.

    A new session would refuse it only after its start. To show that error PySpark asks the session, which
    fails with the same error, and so on: after six minutes PySpark was still at it.
    """
    jvm: Any = SparkContext._jvm
    conf = jvm.org.apache.spark.sql.internal.SQLConf()
    for key, value in options.items():
        try:
            conf.setConfString(key, to_str(value) or "")
        except (CapturedException, Py4JJavaError) as error:
            raise SetupError(f"options: {root_cause(error)}") from error


def require_session(spark: SparkSession) -> None:
    """Raise SetupError if it is no session, was stopped, or is Spark Connect's, which can't call Java."""
    if not isinstance(spark, SparkSession):
        raise SetupError(
            f"spark={spark!r}: give a SparkSession with its Java process at hand, such as session() makes; "
            "Spark Connect's have none"
        )
    if spark.sparkContext._jsc is None:
        raise SetupError("spark: this session was stopped: make another with session()")


def _local_settings() -> dict[str, str]:
    """The settings for a local master, beside those for any."""
    processors = str(os.cpu_count() or 2)
    return {
        "spark.sql.shuffle.partitions": processors,
        # The number of tasks in which Delta's VACUUM lists files; 10,000 by default.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": processors,
        # Rows are millions of short-lived objects: the barriers of the default collector cost more than its
        # short pauses save.
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # It would listen on every address, without a password, and show values of statements.
        "spark.ui.enabled": "false",
    }


def _start_java(settings: Mapping[str, str], master: str | None) -> None:
    """Start Spark's Java process with the settings that are no secrets.

    What it is started with is in its arguments, which every account of the machine can read. It gets all
    settings later, when the session begins.
    """
    conf = SparkConf(loadDefaults=False)
    if master is not None:
        conf.setMaster(master)
    for key, value in settings.items():
        if _SECRET.search(key) is None:
            conf.set(key, to_str(value) or "")
    # A Java process that has begun, and finds nobody to report to, runs for ever.
    with defer_signals():
        SparkContext._ensure_initialized(conf=conf)


def _jar_settings(jars: list[Path], master: str | None, options: Mapping[str, str]) -> dict[str, str]:
    """The setting by which Java finds the jars.

    Spark copies those of `spark.jars`, for its other processes, and leaves the copy in /tmp if it is killed:
    69 MB each time.
    """
    alone = master is not None and _IN_PROCESS_MASTER.fullmatch(master)
    if alone and _JARS not in options and _CLASS_PATH not in options:
        return {_CLASS_PATH: os.pathsep.join(map(str, jars))}
    return {_JARS: ",".join(map(str, jars))}


def _active_session() -> SparkSession | None:
    """The thread's session if it has one, else the process's; None if there is none."""
    try:
        running = SparkSession.active()
    except PySparkRuntimeError:
        return None
    return None if running.sparkContext._jsc is None else running  # its context was stopped on its own


def _refuse_without_jars() -> None:
    """Raise SetupError if somebody else started the running Java process, without the jars we need."""
    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    if not any(jvm.org.apache.spark.util.Utils.classIsLoadable(extension) for extension in _EXTENSIONS):
        raise SetupError(
            "Spark's Java process, which was not started by pgrelay.spark.session, has the jars of neither "
            "Delta nor Iceberg: restart Python and start this session first, or give spark_jars() to that "
            "process, as with spark-submit --jars"
        )


def _reconfigured(running: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """The running session, with these settings. Raises SetupError if it can't have them."""
    extensions = running.conf.get("spark.sql.extensions", None) or ""
    if not any(extension in extensions for extension in _EXTENSIONS):
        raise SetupError(
            "the Spark session that runs in this process has neither Delta nor Iceberg: restart Python and "
            f"start this session first, or start that one with {_EXTENSIONS[0]} in spark.sql.extensions and "
            "spark_jars() in spark.jars"
        )
    for key, value in settings.items():
        if running.conf.isModifiable(key):
            with wrap_invalid_arguments("options"):
                running.conf.set(key, value)
        elif _without_scheme(has := running.conf.get(key, None) or "") != _without_scheme(
            to_str(value) or ""
        ):
            # stop() leaves the Java process, with the memory and options that it was started with.
            cure = "restart Python" if key.startswith("spark.driver.") else "stop() it first"
            raise SetupError(
                f"the Spark session that runs in this process has {key} = {has!r}, not {value!r}: {cure}, or "
                "leave that setting out"
            )
    return running


def _without_scheme(value: str) -> str:
    """A setting with all spellings of a local folder made equal."""
    return re.sub("^file:/*", "/", value).rstrip("/")


def silence_logger(spark: SparkSession, logger: str) -> None:
    """Switch one of Java's loggers off."""
    jvm = spark._jvm
    assert jvm is not None
    log4j = jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel(logger, log4j.Level.OFF)


def _register_tables(spark: SparkSession, location: str) -> None:
    """Register the Delta tables of the warehouse: a session's catalog is empty at its start.

    Warns of each that the catalog can't have, because of its name, or because a later Delta made it. Raises
    SetupError if Java lacks the jars of the warehouse's file system.
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
                    "a Delta table of the warehouse can't be registered in the session",
                    folder=place,
                    reason=root_cause(error),
                )
