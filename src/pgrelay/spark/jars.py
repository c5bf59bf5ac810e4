"""The jars that Spark needs beside its own: Kafka, Avro, Delta and Iceberg, in versions tested together.

The list is fixed, not resolved, and leaves out the jars that PySpark has: the connector's own POM names an
artifact that was never published, and resolving in Spark (`spark.jars.packages`) takes a minute.
To change a version, run `jgo.resolve` over the five of _DIRECT, and leave out PySpark's jars.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pgrelay.embedded.jars import Progress, fetch_jars
from pgrelay.errors import SetupError

_DIRECT: Final = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.spark:spark-avro_2.13:4.1.1",
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
)

_DEPENDENCIES: Final = (
    "com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.21.2",
    "io.delta:delta-kernel-api:4.4.0",
    "io.delta:delta-kernel-defaults:4.4.0",
    "io.delta:delta-kernel-unitycatalog:4.4.0",
    "io.delta:delta-storage:4.4.0",
    "io.unitycatalog:unitycatalog-client:0.6.0",
    "io.unitycatalog:unitycatalog-hadoop:0.6.0",
    "org.apache.commons:commons-pool2:2.12.1",
    "org.apache.kafka:kafka-clients:3.9.1",
)

_COORDINATE: Final = re.compile(r"[\w.-]+(:[\w.-]+){2}")


def spark_jars(progress: Progress | None = None, *, more: Sequence[str] = ()) -> list[Path]:
    """The local paths of the jars (72 MB), for `spark-submit --jars`. Downloads those that are missing.

    `progress` gets each file's name and the bytes received so far; by default a line per file on stderr.
    `more` has Maven coordinates, `group:artifact:version`, of others that are needed, as for an object store;
    nothing that these need in turn is added. Raises SetupError for what is no coordinate, and Unavailable if
    a jar can't be had.
    """
    if isinstance(more, str):
        raise SetupError(f"jars={more!r}: write a list of coordinates, [{more!r}]")
    if not isinstance(more, Sequence):
        raise SetupError(f"jars={more!r}: write a list of coordinates")
    for coordinate in more:
        if not isinstance(coordinate, str) or not _COORDINATE.fullmatch(coordinate):
            raise SetupError(f"jars: {coordinate!r} is not group:artifact:version, as Maven names a jar")
    return fetch_jars((*_DIRECT, *_DEPENDENCIES, *more), progress or _print_progress)


def _print_progress(name: str, size: int) -> None:
    if size == 0:
        print(f"pgrelay.spark: fetching {name}", file=sys.stderr, flush=True)
