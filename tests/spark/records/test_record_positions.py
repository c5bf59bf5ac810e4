"""Positions of records, without decoding anything else."""

import json

from pyspark.sql import SparkSession

from pgrelay.spark.records.record_positions import with_positions
from pgrelay.spark.schemas.registry import Registry


def test_json_records_from_before_avro_have_positions_too(spark: SparkSession) -> None:
    value = {"after": {"id": 1}, "source": {"commit_lsn": 10, "seq": 2, "ts_us": 5_000_000}}
    shape = "topic string, partition int, offset long, key binary, value binary"
    record = ("app.public.a", 0, 0, None, bytearray(json.dumps(value).encode()))
    records = spark.createDataFrame([record], shape)
    [found] = with_positions(records, Registry("http://localhost:1")).collect()
    assert (found.commit_lsn, found.seq, found.ts_ms) == (10, 2, 5000)
