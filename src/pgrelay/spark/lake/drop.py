"""Taking a target out of the lake, with all that was remembered of it."""

from typing import Final

from pyspark.sql import SparkSession

from pgrelay.errors import SetupError
from pgrelay.spark.lake.delta_folders import remove
from pgrelay.spark.lake.positions import SUFFIX
from pgrelay.spark.lake.rejects import CORRUPT
from pgrelay.spark.lake.tables import LakeTable, Using, lake_table

# Properties with which we make a table: a target, one of a mirror's own, and one of what can't be read.
_MADE_BY_US: Final = ("pgrelay.topic", "pgrelay.prefix", CORRUPT)


def drop(spark: SparkSession, target: str, *, using: Using = "delta") -> None:
    """Drop a target and what is remembered of it beside it, files included; a mirror makes it anew.

    A mirror that is to fill it again needs a new checkpoint. One of whole transactions keeps two tables more
    beside its first target, `<prefix>__held_<id>` and `<prefix>__position_<id>` for each checkpoint, which
    can be dropped by this, too; and so can a table of `corrupt_to`.

    `DROP TABLE` alone leaves what is remembered, and the files of a Delta table that an earlier session made,
    which the next one finds again.

    Raises SetupError where there is no such table, or one that pgrelay did not make.
    """
    table = lake_table(spark, target, using)
    positions = table.beside(SUFFIX)
    there, remembered = table.exists(), positions.exists()
    if not there and not remembered:
        raise SetupError(f"{table.name}: no such table")
    if there and not _is_ours(table):
        raise SetupError(f"{table.name} was not made by pgrelay: DROP TABLE {table.name} yourself")
    # The memory last: a drop that was cut short finds what is left.
    if there:
        _drop(table)
    if remembered:
        _drop(positions)


def _is_ours(table: LakeTable) -> bool:
    return any(name in _MADE_BY_US for name in table.properties())


def _drop(table: LakeTable) -> None:
    if table.using == "iceberg":
        table.spark.sql(f"DROP TABLE {table.name} PURGE")
        return
    row = table.spark.sql(f"DESCRIBE DETAIL {table.name}").select("location").first()
    table.spark.sql(f"DROP TABLE {table.name}")
    if row is not None:
        remove(table.spark, row["location"])
