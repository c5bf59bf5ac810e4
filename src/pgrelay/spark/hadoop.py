"""Folders and files wherever Spark's file systems have them."""

from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession


def path(spark: SparkSession, location: Any) -> JavaObject:
    """A path of Hadoop's, from a text or Java's URI."""
    jvm: Any = spark._jvm
    made: JavaObject = jvm.org.apache.hadoop.fs.Path(location)
    return made


def file_system(spark: SparkSession, of: JavaObject) -> JavaObject:
    """The file system that a path is in, with the session's settings."""
    found: JavaObject = of.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    return found
