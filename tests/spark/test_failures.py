"""What Delta fails with is told in one line, with the topic and the target."""

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import PgrelayError, RecordError, exit_code
from pgrelay.spark.columns import Column
from pgrelay.spark.merge import MissingRow
from pgrelay.spark_mirror.failure import reason
from tests.spark.handmade import HandmadeRelay
from tests.spark.records import change

ID = Column("id", "int4", key=True, encoding="integer")


def test_what_the_target_refuses_is_one_line_with_topic_and_target(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    topic = handmade.table("a", ID)
    handmade.write("a", change("c", 10, after={"id": 1}))
    handmade.mirror({"a": target}, using="delta")
    spark.sql(f"ALTER TABLE {target} ADD CONSTRAINT few CHECK (id < 5)")
    handmade.write("a", change("c", 11, after={"id": 9}))
    line = rf"{topic} to {target}: .*CHECK constraint few"
    with pytest.raises(StreamingQueryException) as ended:
        handmade.mirror({"a": target}, using="delta")
    error = reason(ended.value)
    schema = pg.table_schemas(spark, handmade.bootstrap, handmade.prefix)[topic]
    changes = pg.read_changes(spark, handmade.bootstrap, topic, schema=schema)
    with pytest.raises(PgrelayError, match=line) as told:
        pg.apply_changes(changes, target, schema=schema)
    assert str(error) == str(told.value)
    assert "\n" not in str(error)


@pytest.mark.parametrize("kind", [RecordError, MissingRow])
def test_an_error_of_ours_ends_with_its_own_code_wherever_its_class_is(kind: type[PgrelayError]) -> None:
    told = f"[STREAM_FAILED]\nTraceback:\n  merge\n{kind.__module__}.{kind.__name__}: a: no row\n\tat java"
    error = reason(StreamingQueryException(told))
    assert (type(error), str(error), exit_code(error)) == (kind, "a: no row", 4)
