"""A `RandomMirror` in its own process: `python -m tests.spark.random_mirror_process ...`.

It mirrors up to now (`once`), or for some seconds, after which it kills itself and the Java below it.
"""

import os
import signal
import sys
from pathlib import Path

from pgrelay import spark as pg
from tests.spark.options import OPTIONS
from tests.spark.random_mirror import RandomMirror


def main(how: str, warehouse: str, servers: str, prefix: str, seed: str, registry: str) -> None:
    spark = pg.session(warehouse, master="local[2]", options=OPTIONS)
    mirror = RandomMirror(int(seed), registry)
    checkpoint = Path(warehouse, "checkpoint")
    if how == "once":
        mirror.start(spark, servers, prefix, checkpoint, availableNow=True).awaitTermination()
        return
    mirror.start(spark, servers, prefix, checkpoint, processingTime="0 seconds").awaitTermination(int(how))
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
