"""The shop's orders as a Delta table that follows Postgres, and what they come to by status.

    python orders.py          # follows, and shows the sums again and again
    python orders.py --once   # what is in Kafka now, then ends

KAFKA_SERVERS, TOPIC_PREFIX and WAREHOUSE (a folder) come from the environment.
"""

import os
import sys

from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import PgrelayError

_EVERY_S = 15


def main(once: bool) -> None:
    servers, prefix = os.environ["KAFKA_SERVERS"], os.environ["TOPIC_PREFIX"]
    warehouse = os.environ["WAREHOUSE"]
    spark = pg.session(warehouse=warehouse)
    topic = f"{prefix}.public.orders"
    if topic not in pg.table_schemas(spark, servers, prefix):
        sys.exit(f"topic {topic} has no rows yet: start again once it has")
    query = pg.mirror(
        spark,
        servers,
        {topic: "orders"},
        prefix=prefix,
        checkpoint=f"{warehouse}/_checkpoint",
        trigger={"availableNow": True} if once else {"processingTime": f"{_EVERY_S} seconds"},
    )
    while not query.awaitTermination(_EVERY_S):
        if not once:
            show(spark)
    show(spark)


def show(spark: SparkSession) -> None:
    """Print a line for each status: how many orders, and their sum."""
    if not spark.catalog.tableExists("orders"):
        return
    by_status = "SELECT status, count(*), sum(amount) FROM orders GROUP BY status ORDER BY status"
    for status, count, amount in spark.sql(by_status).collect():
        print(f"{status:<8} {count:>6} {amount:>14}", flush=True)


if __name__ == "__main__":
    try:
        main(once="--once" in sys.argv[1:])
    except PgrelayError as error:
        sys.exit(f"orders: {error}")
