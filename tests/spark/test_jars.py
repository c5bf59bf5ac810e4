"""The jars of a session, and what users add to them."""

import pytest

from pgrelay.errors import SetupError
from pgrelay.spark import spark_jars


def test_more_jars_follow_ours() -> None:
    *ours, added = spark_jars(more=["org.apache.hadoop:hadoop-aws:3.4.2"])
    assert ours == spark_jars()
    assert added.name == "hadoop-aws-3.4.2.jar"
    assert added.stat().st_size > 0


def test_a_text_instead_of_a_list_is_named() -> None:
    with pytest.raises(SetupError, match=r"^jars='a:b:1': write a list"):
        spark_jars(more="a:b:1")
    with pytest.raises(SetupError, match=r"^jars=None: write a list of coordinates$"):
        spark_jars(more=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["hadoop-aws.jar", "org.apache.hadoop:hadoop-aws", "a:b:c:d", "a:b:1 "])
def test_what_is_no_coordinate_is_named(given: str) -> None:
    with pytest.raises(SetupError, match=f"^jars: '{given}' is not group:artifact:version"):
        spark_jars(more=[given])
