"""A session where one runs already."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import SetupError

LENGTH = "spark.sql.maxPlanStringLength"


def test_the_one_that_runs_is_taken_with_what_can_still_be_set(spark: SparkSession, warehouse: Path) -> None:
    before = spark.conf.get(LENGTH)
    try:
        assert pg.session() is pg.session(warehouse, options={LENGTH: "1000"}) is spark
        assert spark.conf.get(LENGTH) == "1000"
    finally:
        spark.conf.set(LENGTH, str(before))


def test_another_warehouse_or_fixed_option_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"has spark\.sql\.warehouse\.dir = '.*', not '.*': stop\(\) it"):
        pg.session(tmp_path)
    with pytest.raises(SetupError, match=r"has spark\.driver\.memory = '2g', not '3g': start Python anew"):
        pg.session(options={"spark.driver.memory": "3g"})


def test_one_without_delta_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = spark.newSession()
    bare._jsparkSession.sessionState().conf().setConfString("spark.sql.extensions", "")
    monkeypatch.setattr(SparkSession, "active", lambda: bare)
    with pytest.raises(SetupError, match=r"neither Delta nor Iceberg: .*DeltaSparkSessionExtension"):
        pg.session()


def test_so_is_one_in_a_java_process_that_lacks_the_jars(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As after stop() of a session that was not ours: its process stays.
    monkeypatch.setattr(sys.modules[pg.session.__module__], "_running", lambda: None)
    monkeypatch.setattr(sys.modules[pg.session.__module__], "_EXTENSIONS", ("no.such.Extension",))
    with pytest.raises(SetupError, match=r"has the jars of neither Delta nor Iceberg: start Python anew"):
        pg.session()


def test_a_thread_of_one_s_own_has_the_one_that_runs(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's active session is each thread's, and its builder lays all settings over the one there is."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(pg.session).result() is spark
            with pytest.raises(SetupError, match=r"has spark\.sql\.warehouse\.dir = "):
                thread.submit(pg.session, tmp_path).result()
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_another_master_is_refused(spark: SparkSession, warehouse: Path) -> None:
    assert pg.session(warehouse, "local[2]") is pg.session(warehouse, None) is spark
    with pytest.raises(SetupError, match=r"has spark\.master = 'local\[2\]', not 'local\[3\]': stop\(\) it"):
        pg.session(warehouse, "local[3]")
