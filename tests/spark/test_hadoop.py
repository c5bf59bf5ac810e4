"""Folders and URIs as arguments of the calls."""

from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from pgrelay.errors import SetupError
from pgrelay.spark.hadoop import absolute_location, file_system, hadoop_path


@pytest.mark.parametrize("uri", ["s3a://bucket/lake", "dbfs:/lake", "file:/lake", "hdfs:///lake"])
def test_a_uri_is_kept(uri: str) -> None:
    assert absolute_location(f"{uri}/") == uri


def test_a_folder_is_relative_to_the_working_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_location("lake/") == absolute_location(Path("lake")) == str(tmp_path / "lake")
    assert absolute_location("/lake") == "/lake"


@pytest.mark.parametrize(
    ("place", "root", "reason"),
    [
        ("s3a://lake/t/*", "s3a://lake", r".*S3AFileSystem not found"),
        ("nosuch:/lake/t", "nosuch://", r'.*No FileSystem for scheme "nosuch"'),
    ],
)
def test_a_file_system_without_its_jars_is_refused(
    spark: SparkSession, place: str, root: str, reason: str
) -> None:
    cure = "name the jars of its file system in `jars` of a new process"
    with pytest.raises(SetupError, match=f"^{root}: {reason}: {cure}"):
        file_system(spark, hadoop_path(spark, place))


def test_a_server_that_does_not_answer_is_not_for_lack_of_jars(spark: SparkSession) -> None:
    with pytest.raises(IllegalArgumentException, match="UnknownHostException"):
        file_system(spark, hadoop_path(spark, "hdfs://no-such-host.invalid/lake"))
