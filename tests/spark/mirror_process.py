"""A mirror in its own process, so that it can be killed: `python -m tests.spark.mirror_process ...`.

It mirrors the tables of a relay to Delta and to Iceberg, in one session, for ever or (`once`) up to now.
"""

import sys

from pgrelay import spark as pg
from pgrelay.spark.lake.tables import Using
from tests.spark.options import OPTIONS

_FORMATS: tuple[Using, ...] = ("delta", "iceberg")


def main(how: str, warehouse: str, servers: str, prefix: str, *tables: str) -> None:
    # In small batches a run can be killed behind some of them; the last run need not be.
    at_most = "1500" if how == "once" else "400"
    spark = pg.session(warehouse, master="local[2]", options=OPTIONS)
    queries = [
        pg.mirror(
            spark,
            servers,
            {f"{prefix}.public.{table}": f"lake.{table}" for table in tables},
            prefix=prefix,
            checkpoint=f"{warehouse}/checkpoint-{using}",
            using=using,
            trigger={"availableNow": True} if how == "once" else {"processingTime": "0 seconds"},
            options={"maxOffsetsPerTrigger": at_most},
        )
        for using in _FORMATS
    ]
    for query in queries:
        query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
