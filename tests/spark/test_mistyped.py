"""Mistakes in a call are one-line errors before any broker is contacted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import SetupError

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


def test_a_second_listener_on_the_same_registry_is_refused(spark: SparkSession) -> None:
    """For example when a notebook's cell runs again."""
    registry = CollectorRegistry()
    pg.MirrorListener(spark, "nowhere", TABLES, metrics=registry)
    with pytest.raises(SetupError, match="has these metrics already: keep that one"):
        pg.MirrorListener(spark, "nowhere", TABLES, metrics=registry)
    pg.MirrorListener(spark, "nowhere", TABLES, metrics=CollectorRegistry())
