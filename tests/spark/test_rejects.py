"""Records that can't be read go to one table, whichever topic they are of."""

from pyspark.sql import SparkSession

from pgrelay.spark.batches import Batches, Reading, Writing
from pgrelay.spark.columns import Column
from pgrelay.spark.schema_topic import SchemaTopic
from tests.spark.records import as_read, change, rows, table

ID = Column("id", "int4", key=True, encoding="integer")
TOPICS = [f"app.public.{name}" for name in "abc"]


def test_those_of_several_tables_in_one_batch(spark: SparkSession, target: str) -> None:
    # Delta takes neither two makings of a table nor two merges at once.
    writing = Writing(
        {topic: f"{target}_{topic[-1]}" for topic in TOPICS}, using="delta", corrupt_to=f"{target}_corrupt"
    )
    batches = Batches(SchemaTopic("", "app"), Reading(), writing)
    schemas = {topic: table(topic, ID) for topic in TOPICS}
    for number in range(2):  # the first makes the table
        bad = [change("c", 10 + n, after={"id": 2**31}) for n in range(number + 1)]
        parts = [as_read(spark, topic, bad).where(f"offset = {number}") for topic in TOPICS]
        batches.apply_tables(parts[0].union(parts[1]).union(parts[2]).persist(), schemas)
    found = rows(spark.table(f"{target}_corrupt"), "topic", "offset")
    assert found == {(topic, offset): 1 for topic in TOPICS for offset in range(2)}
