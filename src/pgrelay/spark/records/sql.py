"""Building blocks of the SQL that reads records.

A reader has thousands of nodes, and a call into Java for each would take a second. So it is written as text,
which is parsed only once: for a wide table, even parsing takes long enough to matter in each batch.

Each text for a value can stand anywhere: it is a name, a call, a CASE, or in parentheses.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pyspark.sql import Column as Expression
from pyspark.sql import SparkSession
from pyspark.sql.classic.column import Column as OfExpression

from pgrelay.spark.names import constant, quoted

# By default the parser refuses a number of a thousand digits, and a string of 20 MB.
JSON_OPTIONS: Final = {"maxNumLen": "200000", "maxStringLen": str(2**31 - 1)}


def parse_columns(spark: SparkSession, columns: Iterable[str]) -> list[Expression]:
    """The columns of a select, parsed once for any number of selects. `F.expr` would parse them in each."""
    jvm: Any = spark._jvm
    # The parser obeys the settings of its thread's session, and a mirror's threads have none of their own.
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
    column = jvm.org.apache.spark.sql.classic.ExpressionUtils.column
    parser = spark._jsparkSession.sessionState().sqlParser()
    return [OfExpression(column(parser.parseExpression(text))) for text in columns]


def case(branches: Sequence[tuple[str, str]], otherwise: str = "NULL") -> str:
    """The value of the first branch whose condition is true."""
    if not branches:
        return otherwise
    whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in branches)
    return f"CASE {whens} ELSE {otherwise} END"


def when(condition: str, value: str, otherwise: str = "NULL") -> str:
    """The value if the condition is true."""
    return case([(condition, value)], otherwise)


def alias(value: str, name: str) -> str:
    """A value under a name: a column of a select, or a field of a struct."""
    return f"{value} AS {quoted(name)}"


def from_json(text: str, schema: str, **options: str) -> str:
    """The value of a JSON text, of a type in Spark's DDL."""
    pairs = (constant(part) for pair in (JSON_OPTIONS | options).items() for part in pair)
    return f"from_json({text}, {constant(schema)}, map({', '.join(pairs)}))"


def constant_array(names: Iterable[str]) -> str:
    """An array of these names as constants."""
    return string_array(map(constant, names))


def string_array(values: Iterable[str]) -> str:
    """An array of string values; the cast gives an empty one its type."""
    return f"CAST(array({', '.join(values)}) AS array<string>)"
