"""What Spark's checkpoint says of a query: who it is, and how far a batch reads."""

import json
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

# By topic and partition, the first offset that is not read.
Ends = dict[str, dict[int, int]]


def query_id(spark: SparkSession, checkpoint: str) -> str:
    """The id by which a query goes on from its checkpoint, wherever that is moved to."""
    return str(json.loads(_text(spark, f"{checkpoint}/metadata"))["id"])


def batch_ends(spark: SparkSession, checkpoint: str, batch: int) -> Ends:
    """Up to where a batch reads each partition that there was when it was planned."""
    # A line for each source, after two of Spark's own.
    told: dict[str, dict[str, int]] = json.loads(
        _text(spark, f"{checkpoint}/offsets/{batch}").strip().rpartition("\n")[2]
    )
    return {topic: {int(number): end for number, end in ends.items()} for topic, ends in told.items()}


def _text(spark: SparkSession, file: str) -> str:
    jvm: Any = spark._jvm
    path: JavaObject = jvm.org.apache.hadoop.fs.Path(file)
    stream = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).open(path)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()
