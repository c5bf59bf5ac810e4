"""The SQL that readers of records are written in.

A reader has thousands of nodes, and a call into Java for each would take a second. As text it is parsed, and
only once: for a wide table, even parsing takes long enough to matter in each batch.

Each text for a value can stand in any place: it is a name, a call, a CASE, or in parentheses.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pyspark.sql import Column as Expression
from pyspark.sql import SparkSession
from pyspark.sql.classic.column import Column as OfExpression

from pgrelay.spark.names import constant, quoted

# By default the parser refuses a number of a thousand digits, and a string of 20 MB.
JSON_OPTIONS: Final = {"maxNumLen": "200000", "maxStringLen": str(2**31 - 1)}


def parsed(spark: SparkSession, columns: Iterable[str]) -> list[Expression]:
    """Columns of a select, which serve any number of them. `F.expr` parses its text anew in each."""
    jvm: Any = spark._jvm
    # The parser heeds the settings of its thread's session, and a thread of a mirror has none by itself.
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


def named(value: str, name: str) -> str:
    """A column of a select, or a field of a struct."""
    return f"{value} AS {quoted(name)}"


def from_json(text: str, schema: str, **options: str) -> str:
    """The value of a JSON text, of a type in Spark's DDL."""
    pairs = (constant(part) for pair in (JSON_OPTIONS | options).items() for part in pair)
    return f"from_json({text}, {constant(schema)}, map({', '.join(pairs)}))"


def texts(names: Iterable[str]) -> str:
    """An array of these texts."""
    return array_of_texts(map(constant, names))


def array_of_texts(values: Iterable[str]) -> str:
    """An array of values that are texts; without any, it needs its type, too."""
    return f"CAST(array({', '.join(values)}) AS array<string>)"
