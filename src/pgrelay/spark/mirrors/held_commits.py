"""What the whole-transaction mirrors of a session hold back, for the listener that reports it.

It is kept in the session, as the queries are; settings of this name mean nothing to Spark.
"""

from pyspark.sql import SparkSession


def holds(spark: SparkSession, query: str, oldest_s: float | None) -> None:
    """Note the commit time of the oldest transaction that a query holds back: seconds since 1970, or None."""
    if oldest_s is None:
        spark.conf.unset(_setting(query))
    else:
        spark.conf.set(_setting(query), str(oldest_s))


def held_since(spark: SparkSession, query: str) -> float | None:
    """The commit time of the oldest transaction that a query holds back; None if it holds none."""
    told = spark.conf.get(_setting(query), None)
    return None if told is None else float(told)


def _setting(query: str) -> str:
    return f"pgrelay.held.{query}"
