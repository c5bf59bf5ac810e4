"""Requesting a session while one runs already."""

import json
import shutil
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyspark import SparkContext, SparkFiles
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from pgrelay import spark as pg
from pgrelay.errors import SetupError
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.session import (
    _SECRET,
    _jar_settings,
    _refuse_invalid_options,
    _register_tables,
    _start_java,
)
from tests.spark.handmade_records import change, changes_of, rows, table
from tests.spark.jobs import counted_jobs
from tests.spark.options import SECRET

LENGTH = "spark.sql.maxPlanStringLength"
SCHEMA = table("app.public.t", Column("id", "int4", key=True, encoding="integer"))


def test_a_running_session_is_reused_with_settings_that_can_still_change(
    spark: SparkSession, warehouse: Path
) -> None:
    before = spark.conf.get(LENGTH)
    try:
        assert pg.session() is pg.session(warehouse, options={LENGTH: "1000"}) is spark
        assert spark.conf.get(LENGTH) == "1000"
    finally:
        spark.conf.set(LENGTH, str(before))


def test_an_interrupt_waits_until_java_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def start(conf: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        started.append(conf)

    monkeypatch.setattr(SparkContext, "_ensure_initialized", start)
    # A mirror that ended in this process has left signals ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            _start_java({}, "local[2]")
    finally:
        signal.signal(signal.SIGINT, before)
    assert started


def test_another_warehouse_or_fixed_option_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"has spark\.sql\.warehouse\.dir = '.*', not '.*': stop\(\) it"):
        pg.session(tmp_path)
    with pytest.raises(SetupError, match=r"has spark\.driver\.memory = '2g', not '3g': restart Python"):
        pg.session(options={"spark.driver.memory": "3g"})
    # Option values need not be text, as in Spark.
    assert pg.session(options={"spark.ui.enabled": False}) is spark  # type: ignore[dict-item]
    with pytest.raises(SetupError, match=r"has spark\.executor\.cores = '', not 2: stop\(\) it"):
        pg.session(options={"spark.executor.cores": 2})  # type: ignore[dict-item]


def test_reading_iceberg_leaves_nothing_on_the_heap(spark: SparkSession, target: str) -> None:
    """Its vectorized reader leaves an allocator for each file, and a mirror reads all files in each batch."""
    jvm: Any = spark._jvm
    allocators = jvm.org.apache.iceberg.arrow.ArrowAllocation.rootAllocator().getChildAllocators
    before = allocators().size()
    written = [change("c", 10 + number, after={"id": number}) for number in range(3)]
    for number in range(len(written)):
        batch = changes_of(spark, SCHEMA, written).where(f"offset = {number}")
        pg.apply_changes(batch, target, schema=SCHEMA, using="iceberg")
    assert rows(spark.table(f"iceberg.{target}")) == {(number,): 1 for number in range(len(written))}
    assert allocators().size() == before


def test_a_commit_takes_as_many_jobs_in_any_time_zone(spark: SparkSession, target: str) -> None:
    """By default Delta reads its log again after each commit, unless Java's time zone is UTC."""
    written = [change("c", 10 + number, after={"id": number}) for number in range(4)]

    def jobs(number: int) -> int:
        batch = changes_of(spark, SCHEMA, written).where(f"offset = {number}")
        with counted_jobs(spark) as counted:
            pg.apply_changes(batch, target, schema=SCHEMA)
        return counted.count

    jobs(0), jobs(1)  # creates the table, and writes the first rows
    with java_time_zone(spark, "UTC"):
        in_utc = jobs(2)
    with java_time_zone(spark, "Europe/Berlin"):
        assert jobs(3) == in_utc


@contextmanager
def java_time_zone(spark: SparkSession, name: str) -> Iterator[None]:
    java: Any = spark._jvm.java  # type: ignore[union-attr]
    zones, properties = java.util.TimeZone, java.lang.System
    zone, setting = zones.getDefault(), properties.getProperty("user.timezone")
    zones.setDefault(zones.getTimeZone(name))
    properties.setProperty("user.timezone", name)  # Delta looks at both
    try:
        yield
    finally:
        zones.setDefault(zone)
        properties.setProperty("user.timezone", setting)


def test_no_copy_is_made_of_the_jars(spark: SparkSession) -> None:
    """A mirror that is killed would leave 69 MB in /tmp each time."""
    assert spark.conf.get("spark.master") == "local[2]"
    assert list(Path(SparkFiles.getRootDirectory()).iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
def test_a_secret_is_not_among_the_arguments_of_java(spark: SparkSession) -> None:
    gateway: Any = SparkContext._gateway
    arguments = Path(f"/proc/{gateway.proc.pid}/cmdline").read_text()
    assert "spark.driver.memory=2g" in arguments
    ((name, secret),) = SECRET.items()
    assert secret not in arguments
    java: Any = spark.sparkContext._jsc
    assert java.hadoopConfiguration().get(name.removeprefix("spark.hadoop.")) == secret


@pytest.mark.parametrize(
    "name",
    [
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.encryption.key",
        "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net",
        "spark.hadoop.fs.gs.auth.service.account.private.key",
        "spark.ssl.keyPassword",
    ],
)
def test_names_of_secrets_are_recognized(name: str) -> None:
    assert _SECRET.search(name)


def test_sparks_own_page_is_off_unless_asked_for(spark: SparkSession) -> None:
    assert spark.sparkContext.uiWebUrl is None


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[4, 2]"])
def test_one_process_finds_the_jars_by_its_class_path(master: str) -> None:
    jars = [Path("/m2/a.jar"), Path("/m2/b.jar")]
    assert _jar_settings(jars, master, {}) == {"spark.driver.extraClassPath": "/m2/a.jar:/m2/b.jar"}


@pytest.mark.parametrize(
    ("master", "options"),
    [
        ("spark://host:7077", {}),
        ("local-cluster[2, 1, 1024]", {}),
        (None, {}),
        ("local[*]", {"spark.jars": "/other.jar"}),
        ("local[*]", {"spark.driver.extraClassPath": "/other.jar"}),
    ],
)
def test_other_processes_get_the_jars_from_spark(master: str | None, options: dict[str, str]) -> None:
    """So that an option that names jars does not meet ours in the class path."""
    jars = [Path("/m2/a.jar"), Path("/m2/b.jar")]
    assert _jar_settings(jars, master, options) == {"spark.jars": "/m2/a.jar,/m2/b.jar"}


def test_a_running_session_without_delta_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = spark.newSession()
    bare._jsparkSession.sessionState().conf().setConfString("spark.sql.extensions", "")
    monkeypatch.setattr(SparkSession, "active", lambda: bare)
    with pytest.raises(SetupError, match=r"neither Delta nor Iceberg: .*DeltaSparkSessionExtension"):
        pg.session()


def test_a_java_process_without_the_jars_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As after stop() of a session that was not ours: its Java process stays.
    monkeypatch.setattr(sys.modules[pg.session.__module__], "_active_session", lambda: None)
    monkeypatch.setattr(sys.modules[pg.session.__module__], "_EXTENSIONS", ("no.such.Extension",))
    with pytest.raises(SetupError, match=r"has the jars of neither Delta nor Iceberg: restart Python"):
        pg.session()


def test_another_thread_gets_the_running_session(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's active session is per thread, and its builder applies all settings to the existing one."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(pg.session).result() is spark
            with pytest.raises(SetupError, match=r"has spark\.sql\.warehouse\.dir = "):
                thread.submit(pg.session, tmp_path).result()
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_warehouse_without_the_jars_of_its_file_system_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SetupError, match=r"^s3a://lake: .*S3AFileSystem not found: name the jars"):
        _register_tables(spark, "s3a://lake/of/tables")


def test_a_value_that_a_new_session_would_not_take_is_refused(spark: SparkSession) -> None:
    """PySpark would try, for more than minutes, to show the error of a session with such a value."""
    with pytest.raises(SetupError, match=r"^options: .*'many' in the config .*shuffle\.partitions"):
        _refuse_invalid_options({"spark.app.name": "x", "spark.sql.shuffle.partitions": "many"})


def test_another_master_is_refused(spark: SparkSession, warehouse: Path) -> None:
    assert pg.session(warehouse, "local[2]") is pg.session(warehouse, None) is spark
    with pytest.raises(SetupError, match=r"has spark\.master = 'local\[2\]', not 'local\[3\]': stop\(\) it"):
        pg.session(warehouse, "local[3]")


def test_a_folder_that_can_not_be_a_table_does_not_prevent_a_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Tables beside it load too. The same holds for one that a later Delta created."""
    folder = tmp_path / "a [lake] {1}"  # its name must not be read as a pattern
    fine = folder / "odd.db" / "fine"
    spark.range(1).write.format("delta").save(str(fine))
    for odd in (folder / "raw-events", folder / "odd-names.db" / "t", fine.parent / "later"):
        shutil.copytree(fine, odd)
    log = fine.parent / "later" / "_delta_log"
    commit = log / f"{0:020}.json"
    for checksum in [*log.glob("*.crc"), *log.glob(".*.crc")]:
        checksum.unlink(missing_ok=True)
    entries = [json.loads(line) for line in commit.read_text().splitlines()]
    features = {"readerFeatures": ["ofTomorrow"], "writerFeatures": ["ofTomorrow"]}
    later = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    actions = [later if "protocol" in action else action for action in entries]
    commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    with capture_logs() as logs:
        _register_tables(spark, str(folder))
    skipped = {Path(urlsplit(each["folder"]).path).name: each["reason"] for each in logs}
    assert skipped.keys() == {"raw-events", "t", "later"}
    assert "ofTomorrow" in skipped["later"]
    assert all("\n" not in reason for reason in skipped.values())
    assert spark.table("odd.fine").count() == 1
