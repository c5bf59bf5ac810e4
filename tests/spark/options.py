"""Settings of the sessions that tests start: small and quiet, and the tests' own with fewer processes."""

from typing import Final

OPTIONS: Final = {
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -Djdk.lang.Process.launchMechanism=VFORK",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
}

# Nobody may see it on the way to where Java reads it.
SECRET: Final = {"spark.hadoop.fs.s3a.secret.key": "open sesame"}

# Hadoop runs `readlink` whenever a stream or a commit of Delta renames a file, and `chmod` to set a file's
# permissions: some twenty processes for a small batch. These classes avoid the first. Mirrors that tests kill
# use the same settings as a user's.
FEWER_PROCESSES: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
}
