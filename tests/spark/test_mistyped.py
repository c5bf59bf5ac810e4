"""Mistakes in a call are one-line errors before any broker is contacted."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import SetupError
from tests.spark.handmade_records import table

TABLES = {"p.a": "lake.a"}


def test_a_single_topic_instead_of_a_list_is_refused(spark: SparkSession) -> None:
    told = r"topics='p\.a': write a list of topics, \['p\.a'\]"
    with pytest.raises(SetupError, match=told):
        pg.table_schemas(spark, "nowhere", "p", topics="p.a")
    with pytest.raises(SetupError, match=told):
        pg.registry_schemas("http://nowhere", "p.a")


@pytest.mark.parametrize("call", [pg.mirror, pg.history])
@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ({"text_columns": {"p.a": "at"}}, r"text_columns: p\.a has 'at': write a list of columns, \['at'\]"),
        (
            {"trigger": {"availablenow": True}},
            "trigger: there is no 'availablenow'; write .*availableNow",
        ),
    ],
)
def test_an_argument_of_the_wrong_kind_is_refused(
    spark: SparkSession, tmp_path: Path, call: Callable[..., object], choice: dict[str, Any], told: str
) -> None:
    with pytest.raises(SetupError, match=told):
        call(spark, "nowhere", TABLES, prefix="p", checkpoint=tmp_path, **choice)


@pytest.mark.parametrize("tables", [["p.a"], {}])
def test_targets_are_given_by_topic(spark: SparkSession, tmp_path: Path, tables: Any) -> None:
    with pytest.raises(SetupError, match=r"tables=.*: give a target for each topic"):
        pg.mirror(spark, "nowhere", tables, prefix="p", checkpoint=tmp_path)


@pytest.mark.parametrize("schema", [{}, None], ids=["all of them", "none"])
def test_one_tables_schema_is_needed(spark: SparkSession, schema: Any) -> None:
    told = r"schema: a (dict|NoneType) is no TableSchema: write schema=table_schemas\(\.\.\.\)\[topic\]"
    with pytest.raises(SetupError, match=told):
        pg.read_changes(spark, "nowhere", "p.a", schema=schema)
    with pytest.raises(SetupError, match=told):
        pg.apply_changes(spark.range(1), "lake.a", schema=schema)


def test_changes_are_those_of_one_topic(spark: SparkSession) -> None:
    topics: Any = ["p.a", "p.b"]
    with pytest.raises(SetupError, match=r"topic=\['p\.a', 'p\.b'\]: write one topic"):
        pg.read_changes(spark, "nowhere", topics, schema=table("p.a"))


def test_a_target_is_named(spark: SparkSession) -> None:
    target: Any = None
    with pytest.raises(SetupError, match="None is not a table name"):
        pg.apply_changes(spark.range(0).selectExpr("struct() AS after"), target, schema=table("p.a"))


@pytest.mark.parametrize("older_than", [7, timedelta(days=-1)], ids=["number", "negative"])
def test_an_age_is_a_timedelta(spark: SparkSession, older_than: Any) -> None:
    """A negative one would remove every version but the last."""
    with pytest.raises(SetupError, match=r"older_than=.*: write a timedelta, such as timedelta\(days=7\)"):
        pg.purge(spark, "lake.a", using="iceberg", older_than=older_than)


def test_a_second_listener_on_the_same_registry_is_refused(spark: SparkSession) -> None:
    """For example when a notebook's cell runs again."""
    registry = CollectorRegistry()
    pg.MirrorListener(spark, "nowhere", TABLES, metrics=registry)
    with pytest.raises(SetupError, match="has these metrics already: keep that one"):
        pg.MirrorListener(spark, "nowhere", TABLES, metrics=registry)
    pg.MirrorListener(spark, "nowhere", TABLES, metrics=CollectorRegistry())
