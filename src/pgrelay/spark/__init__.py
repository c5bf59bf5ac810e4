"""Turn the relay's topics into exact Delta or Iceberg tables, on Spark.

    from pgrelay import spark as pg

    spark = pg.session(warehouse="/lake")
    query = pg.mirror(spark, "localhost:9092", {"app.public.orders": "lake.orders"}, prefix="app",
                      checkpoint="/lake/_checkpoint")

Everything here builds plans from Spark's own expressions: no row passes through Python.
"""

from pgrelay.errors import GapError, PgrelayError, RecordError, SetupError
from pgrelay.spark.jars import spark_jars
from pgrelay.spark.lake.apply import apply_changes
from pgrelay.spark.lake.drop import drop
from pgrelay.spark.lake.upkeep import compact, purge
from pgrelay.spark.mirrors.listener import MirrorListener
from pgrelay.spark.mirrors.mirror import history, mirror
from pgrelay.spark.mirrors.query_error import query_error
from pgrelay.spark.mirrors.state_tables import MirrorPosition, mirror_position
from pgrelay.spark.records.changes import read_changes
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.postgres_schemas import postgres_schemas
from pgrelay.spark.schemas.registry_schemas import registry_schemas
from pgrelay.spark.schemas.schema import TableSchema, TableVersion
from pgrelay.spark.schemas.schema_topic import table_schemas
from pgrelay.spark.session import session

__all__ = [
    "Column",
    "GapError",
    "MirrorListener",
    "MirrorPosition",
    "PgrelayError",
    "RecordError",
    "SetupError",
    "TableSchema",
    "TableVersion",
    "apply_changes",
    "compact",
    "drop",
    "history",
    "mirror",
    "mirror_position",
    "postgres_schemas",
    "purge",
    "query_error",
    "read_changes",
    "registry_schemas",
    "session",
    "spark_jars",
    "table_schemas",
]
