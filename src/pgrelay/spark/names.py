"""Names and constants in Spark SQL, and the columns that pgrelay adds to a table."""

import re
from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

COMMIT_LSN: Final = "__commit_lsn"
SEQ: Final = "__seq"
# Only in a history: the LSN of the change that ended a version.
END_LSN: Final = "__end_lsn"

_ODD: Final = ("'", "\\")
_PARTS: Final = re.compile(r"['\\]|[^'\\]+")


def row_column(name: str) -> str:
    """The name of a table's column in frames that have our columns too, none of which has a colon."""
    return f"row:{name}"


def as_row_columns(names: Iterable[str], row: str = "") -> list[str]:
    """SQL of columns under their `row_column` names; `row` is what they are read from, such as `after.`."""
    return [f"{row}{quoted(name)} AS {quoted(row_column(name))}" for name in names]


def key_json(key: Iterable[str]) -> Expression:
    """A row's key as JSON, for a message. The row has the columns under their `row_column` names.

    Spark writes it: Python's own date and time can't hold all that a column can.
    """
    return F.to_json(F.struct(*(F.col(quoted(row_column(name))).alias(name) for name in key)))


def columns_and_values(names: Iterable[str], commit_lsn: str = f"s.{COMMIT_LSN}") -> tuple[str, str]:
    """The columns and values of an INSERT of live rows from `s`, which has the `row_column` names."""
    names = list(names)
    values = [*(f"s.{quoted(row_column(name))}" for name in names), commit_lsn, f"s.{SEQ}"]
    return ", ".join([*map(quoted, names), COMMIT_LSN, SEQ]), ", ".join(values)


def quoted(name: str) -> str:
    """One identifier between backticks."""
    return f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """A text as a string literal of SQL, where an expression is not accepted."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def constant(text: str) -> str:
    """A text as a constant expression of SQL.

    It has no backslash: a setting of the session decides whether that escapes or stands for itself.
    """
    parts = [f"chr({ord(part)})" if part in _ODD else f"'{part}'" for part in _PARTS.findall(text)]
    return f"concat({', '.join(parts)})" if len(parts) > 1 else (parts or ["''"])[0]


def sql_type(kind: DataType) -> str:
    """A type in SQL. Names `timestamp_ltz`, since a setting of the session decides what `timestamp` means."""
    return re.sub(r"\btimestamp\b", "timestamp_ltz", kind.simpleString())
