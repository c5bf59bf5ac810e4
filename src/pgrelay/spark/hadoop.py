"""Folders and files on any file system that Spark can use."""

import os
import re
from pathlib import Path
from typing import Any, Final

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pgrelay.errors import SetupError
from pgrelay.spark.failures import root_cause

# RFC 3986, but of at least two characters: a drive letter is no scheme.
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE | re.ASCII)


def absolute_location(folder: str | os.PathLike[str]) -> str:
    """A folder as an absolute path; a URI (`s3a://lake`, `dbfs:/lake`) only loses its trailing slashes."""
    text = os.fspath(folder)
    return text.rstrip("/") if _SCHEME.match(text) else str(Path(text).absolute())


def hadoop_path(spark: SparkSession, location: Any) -> JavaObject:
    """Hadoop's Path of a string or a Java URI."""
    jvm: Any = spark._jvm
    created: JavaObject = jvm.org.apache.hadoop.fs.Path(location)
    return created


def file_system(spark: SparkSession, path: JavaObject) -> JavaObject:
    """The file system of a path, with the session's settings.

    Raises SetupError if Java has no class for it, which shows without asking a server.
    """
    conf: Any = spark._jsparkSession.sessionState().newHadoopConf()
    jvm: Any = spark._jvm
    uri = path.toUri()
    if (scheme := uri.getScheme()) is not None:
        try:
            jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, conf)
        except Py4JJavaError as error:
            raise SetupError(
                f"{scheme}://{uri.getAuthority() or ''}: {root_cause(error)}: name the jars of its file "
                "system in `jars` of a new process, or in --jars of spark-submit; docs/spark-operations.md, "
                "'On an object store', has those of s3a"
            ) from None
    found: JavaObject = path.getFileSystem(conf)
    return found
