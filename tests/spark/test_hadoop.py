"""Folders and URIs as arguments of the calls."""

from pathlib import Path

import pytest

from pgrelay.spark.hadoop import absolute


@pytest.mark.parametrize("uri", ["s3a://bucket/lake", "dbfs:/lake", "file:/lake", "hdfs:///lake"])
def test_a_uri_is_kept(uri: str) -> None:
    assert absolute(f"{uri}/") == uri


def test_a_folder_is_relative_to_the_working_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("lake/") == absolute(Path("lake")) == str(tmp_path / "lake")
    assert absolute("/lake") == "/lake"
