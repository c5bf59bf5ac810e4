"""Drops a target, with all that is remembered of it."""

from typing import Final

from pyspark.sql import SparkSession

from pgrelay.errors import SetupError
from pgrelay.spark.failures import wrap_java_errors
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.positions import SUFFIX, is_positions_table, positions_table
from pgrelay.spark.lake.rejects import CORRUPT_PROPERTY
from pgrelay.spark.lake.tables import LakeTable, Using

# Properties that identify a target, a mirror's internal table, and a table of `corrupt_to`.
_MADE_BY_US: Final = ("pgrelay.topic", "pgrelay.prefix", CORRUPT_PROPERTY)


def drop(spark: SparkSession, target: str, *, using: Using = "delta") -> None:
    """Drop a target and what is remembered of it, files included; a mirror creates it again.

    A mirror that is to fill it again needs a new checkpoint. A mirror of whole transactions has two more
    tables for each checkpoint, `<prefix>__held_<id>` and `<prefix>__position_<id>` beside its first target.
    This call takes them too, and a table of `corrupt_to`.

    `DROP TABLE` alone leaves what is remembered, and the files of a Delta table that an earlier session
    created, which the next session finds again.

    Raises SetupError if there is no such table, or if pgrelay did not create it.
    """
    table = lake_table(spark, target, using)
    positions = positions_table(table)
    has_table, has_positions = table.exists(), positions.exists()
    if not has_table and not has_positions:
        raise SetupError(f"{table.name}: no such table")
    if has_table and not _is_ours(table):
        if is_positions_table(table):
            raise SetupError(
                f"{table.name} has what is remembered of the table without {SUFFIX} in its name: drop that "
                "one, whether it still exists or not, which takes this one along"
            )
        raise SetupError(f"{table.name} was not made by pgrelay: DROP TABLE {table.name} yourself")
    with wrap_java_errors(f"drop {target}"):
        # The positions last, so that an interrupted drop can be repeated.
        if has_table:
            table.drop()
        if has_positions:
            positions.drop()


def _is_ours(table: LakeTable) -> bool:
    return any(name in _MADE_BY_US for name in table.properties())
