"""What Delta's log tells of commits, and what it leaves out."""

from collections import Counter
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

from pyspark.sql import SparkSession

from tests.spark.handmade_records import Topic, change, rows, table
from tests.spark.lake.test_positions import ID, Driver
from tests.spark.lake.test_put_back import Lake


def test_a_restore_by_time_is_taken_for_a_loss_and_a_shorter_log_too(
    spark: SparkSession, target: str
) -> None:
    """Delta's log tells the time as it was written in the statement."""
    lake = Lake(spark, target, "delta")
    version = lake.commit()
    [moment] = spark.sql(f"DESCRIBE HISTORY {lake.table.name} LIMIT 1").select("timestamp").collect()
    lake.commit()
    assert lake.is_reverted(version + 2)  # such as of a folder that came from a backup
    spark.sql(f"RESTORE TABLE {lake.table.name} TO TIMESTAMP AS OF '{moment['timestamp']}'")
    assert lake.is_reverted(version)


def test_a_commit_that_does_not_say_what_it_did_is_no_loss(topic: Topic, target: str) -> None:
    """Delta's protocol has other writers leave that out."""
    schema = table(topic.name, ID)
    topic.write(*(change("c", 10 * n, after={"id": n}) for n in (1, 2)))
    driver = Driver(topic, target, "delta", schema)
    driver.apply(0, 1)
    [folder] = topic.spark.sql(f"DESCRIBE DETAIL {driver.table.name}").select("location").collect()
    entry = Path(url2pathname(urlparse(folder[0]).path)) / "_delta_log"
    entry /= f"{driver.table.version() + 1:020d}.json"
    entry.write_text('{"txn":{"appId":"another","version":1,"lastUpdated":1}}\n')
    Driver(topic, target, "delta", schema).apply(1, 2)
    assert rows(driver.table.rows()) == Counter([(1,), (2,)])
