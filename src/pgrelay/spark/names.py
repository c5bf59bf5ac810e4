"""Names in Spark SQL, and those that pgrelay adds to a table."""

import re
from collections.abc import Iterable
from typing import Final

from pyspark.sql import Row
from pyspark.sql.types import DataType

COMMIT_LSN: Final = "__commit_lsn"
SEQ: Final = "__seq"
# Of a history: the change that ended a version; other targets have no such column.
END_LSN: Final = "__end_lsn"


def carried(name: str) -> str:
    """What a table's column is called in frames where ours stand beside it: no name of ours has a colon."""
    return f"row:{name}"


def told_key(row: Row, key: Iterable[str]) -> str:
    """Which row it is, for people: the columns of its key and their values, where they are `carried`."""
    return ", ".join(f"{name} = {row[carried(name)]!r}" for name in key)


def columns_and_values(names: Iterable[str]) -> tuple[str, str]:
    """A target's columns of live rows, and what they are in `s`, where the table's are `carried`."""
    names, own = list(names), [COMMIT_LSN, SEQ]
    values = [*(f"s.{quoted(carried(name))}" for name in names), *(f"s.{name}" for name in own)]
    return ", ".join([*map(quoted, names), *own]), ", ".join(values)


def quoted(name: str) -> str:
    """One identifier between backticks."""
    return f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """A text as SQL writes it, between quotes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def sql_type(kind: DataType) -> str:
    """A type as SQL writes it, where `timestamp` is what a setting of the session says."""
    return re.sub(r"\btimestamp\b", "timestamp_ltz", kind.simpleString())
