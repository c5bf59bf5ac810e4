"""Columns whose large (TOAST) value was not sent: listed by name, or with a placeholder as the value."""

from functools import reduce
from itertools import pairwise

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from pgrelay.encode.records import PLACEHOLDER
from pgrelay.spark.records.order import before
from pgrelay.spark.schemas.schema import TableSchema


def named_now(told: Expression, schema: TableSchema) -> Expression:
    """An array of column names as of the change's position, translated to the names in force.

    Columns that are gone are left out.
    """
    names = schema.names_now()
    if len(names) == 1:
        return told
    # After the last of these positions all columns have their current names.
    branches = [(before(until), _map(now)) for (_, now), (until, _) in pairwise(names)]
    other = reduce(lambda chain, branch: chain.when(*branch), branches[1:], F.when(*branches[0]))
    named = F.transform(
        told, lambda name: F.when(F.map_contains_key(other, name), F.element_at(other, name)).otherwise(name)
    )
    return F.when(other.isNull(), told).otherwise(F.filter(named, lambda name: name.isNotNull()))


def _map(names: dict[str, str | None]) -> Expression:
    parts = (F.lit(part).cast("string") for pair in names.items() for part in pair)
    return F.create_map(*parts).cast("map<string, string>")  # an empty map needs its type, too


def doubtful(name: str) -> str:
    """What is wrong with a column's value that may be the placeholder."""
    return (
        f"{name}: '{PLACEHOLDER}' may stand for an unchanged value: pass placeholder=True, or False if it is "
        "text"
    )
