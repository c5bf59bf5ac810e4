"""How many of Spark's jobs something takes."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession


@dataclass
class Jobs:
    """The jobs of a block, once it has ended."""

    count: int = 0


@contextmanager
def counted_jobs(spark: SparkSession) -> Iterator[Jobs]:
    """Counts the jobs that this thread starts in the block."""
    group, jobs, context = uuid.uuid4().hex, Jobs(), spark.sparkContext
    context.setJobGroup(group, "")
    try:
        yield jobs
    finally:
        context._jsc.clearJobGroup()
        jobs.count = len(context.statusTracker().getJobIdsForGroup(group))
