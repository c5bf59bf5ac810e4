"""The folders of Delta tables, found by content: a session's catalog lacks the tables of other sessions."""

from typing import Any, Final

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from pgrelay.spark.hadoop import file_system, hadoop_path

_LOG: Final = "_delta_log"

# A log has its first commit, or a checkpoint if early commits were cleaned up.
_LOG_FILES: Final = "{00000000000000000000.json,_last_checkpoint}"


def delta_tables(spark: SparkSession, pattern: str) -> list[JavaObject]:
    """The path of each folder that matches the Hadoop glob and holds a Delta table."""
    glob = hadoop_path(spark, f"{pattern}/{_LOG}/{_LOG_FILES}")
    found = file_system(spark, glob).globStatus(glob) or []
    folders = [status.getPath().getParent().getParent() for status in found]
    return list({folder.toString(): folder for folder in folders}.values())


def remove_folder(spark: SparkSession, location: str) -> None:
    """Remove a table's folder, which DROP TABLE leaves if another session created the table."""
    _remove(spark, hadoop_path(spark, location))


def remove_unfinished(spark: SparkSession, name: str) -> None:
    """Remove what a killed CREATE TABLE left in the folder of the table `name` (quoted).

    It would prevent the table from being created or read. A folder with anything else in it stays.
    """
    state: Any = spark._jsparkSession.sessionState()
    in_session = name.removeprefix("`spark_catalog`.")
    if state.sqlParser().parseMultipartIdentifier(in_session).length() > 2:
        return  # another catalog's
    identifier = state.sqlParser().parseTableIdentifier(in_session)
    folder = hadoop_path(spark, state.catalog().defaultTablePath(identifier))
    files = file_system(spark, folder)
    if not files.exists(folder):
        return
    inside = list(files.listStatus(folder))
    if [status.getPath().getName() for status in inside] != [_LOG]:
        return
    if all(_precedes_commits(files, status) for status in files.listStatus(inside[0].getPath())):
        _remove(spark, folder)


def _precedes_commits(files: JavaObject, in_log: JavaObject) -> bool:
    """Whether it is a hidden file or an empty folder: a commit's file gets its final name at the end."""
    place = in_log.getPath()
    hidden: bool = place.getName().startswith(".")
    return hidden or (in_log.isDirectory() and not files.listStatus(place))


def _remove(spark: SparkSession, folder: JavaObject) -> None:
    file_system(spark, folder).delete(folder, True)
    # Delta caches the table's log, and would go on from there.
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.invalidateCache(spark._jsparkSession, folder)
