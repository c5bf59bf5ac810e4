"""Settings of the sessions that tests start: small and quiet; the tests' own with fewer processes, too."""

from typing import Final

OPTIONS: Final = {
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -Djdk.lang.Process.launchMechanism=VFORK",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
}

# Hadoop looks for links by a `readlink` wherever a stream or a commit of Delta renames a file, and sets the
# rights of files by a `chmod`: some twenty processes for a small batch. These classes do without the first.
# Mirrors that are killed write as a user's do.
FEWER_PROCESSES: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
}
