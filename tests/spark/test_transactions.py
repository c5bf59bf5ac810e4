"""Where records stand, of which nothing else is decoded."""

import json

from pyspark.sql import SparkSession

from pgrelay.spark.registry import Registry
from pgrelay.spark.transactions import with_positions


def test_json_of_before_the_relay_wrote_avro_has_a_place_too(spark: SparkSession) -> None:
    value = json.dumps({"after": {"id": 1}, "source": {"commit_lsn": 10, "seq": 2}}).encode()
    shape = "topic string, partition int, offset long, key binary, value binary"
    records = spark.createDataFrame([("app.public.a", 0, 0, None, bytearray(value))], shape)
    [row] = with_positions(records, Registry("http://localhost:1"), "").collect()
    assert (row.commit_lsn, row.seq) == (10, 2)
