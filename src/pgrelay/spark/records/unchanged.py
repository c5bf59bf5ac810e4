"""Columns whose large (TOAST) value was not sent: listed by name, or with a placeholder as the value."""

from itertools import pairwise

from pgrelay.encode.records import PLACEHOLDER
from pgrelay.spark.names import constant
from pgrelay.spark.records.order import before
from pgrelay.spark.records.sql import case, when
from pgrelay.spark.schemas.schema import TableSchema


def current_names(array: str, schema: TableSchema) -> str:
    """SQL of an array of column names as of the change's position, translated to the names in force.

    Columns that are gone are left out.
    """
    names = schema.names_now()
    if len(names) == 1:
        return array
    # After the last of these positions all columns have their current names.
    other = case([(before(until), _map(now)) for (_, now), (until, _) in pairwise(names)])
    now = when(f"map_contains_key({other}, name)", f"element_at({other}, name)", "name")
    translated = f"filter(transform({array}, name -> {now}), name -> name IS NOT NULL)"
    return when(f"{other} IS NULL", array, translated)


def _map(names: dict[str, str | None]) -> str:
    parts = ("NULL" if part is None else constant(part) for pair in names.items() for part in pair)
    return f"CAST(map({', '.join(parts)}) AS map<string, string>)"  # an empty map needs its type, too


def possible_placeholder(name: str) -> str:
    """What is wrong with a column's value that may be the placeholder."""
    return (
        f"{name}: '{PLACEHOLDER}' may stand for an unchanged value: pass placeholder=True, or False if it is "
        "text"
    )
