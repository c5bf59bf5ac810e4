"""Values whose JSON Spark's parser would rewrite: numbers past a double's digits, and documents.

In a map of texts a JSON number has passed through a double, and the document "a" looks like the text a. Such
columns are parsed a second time, as variants, which keep up to 38 digits; a number with more is inexact.
All is SQL.
"""

from typing import Final

from pyspark.sql.types import ArrayType, DecimalType, StringType

from pgrelay.encode.encodings import JSON, NUMBER, array_of
from pgrelay.spark.names import constant, quoted
from pgrelay.spark.records.change_columns import SIDES
from pgrelay.spark.records.decimals import exact_decimal
from pgrelay.spark.records.sql import alias, from_json, when
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableSchema

# Shown in a document's schema: a number became a double; an array of mixed types hides what it holds.
_DOUBLE: Final = constant("(?:^|<|: )DOUBLE(?:$|,|>)")
_MIXED: Final = "'VARIANT'"
# What becomes a double in the JSON of a record, and what a double may be in that of the document: a number
# with a point, or a string. All but the latter is looked for outside of strings.
_LONG: Final = constant(r"[0-9][eE]|(?:[0-9]\.?){39}")
_POINT: Final = constant("[0-9][.]")
_INFINITE: Final = constant('"-?Infinity"')
_ESCAPED: Final = constant(r"\\.")
_STRING: Final = constant('"[^"]*"')


def needs_document(column: Column) -> bool:
    """Whether a column's values have to be parsed as variants."""
    if column.encoding in (NUMBER, array_of(NUMBER)):
        return column.type_name.removeprefix("_") == "numeric"
    return is_document(column)


def is_document(column: Column) -> bool:
    """Whether a column's values are documents in the record, whose exact text is not kept."""
    return column.encoding in (JSON, array_of(JSON))


def document_columns(text: str, schema: TableSchema) -> list[str]:
    """The columns, structs of variants, that `document_value` reads; none if no column needs a document."""
    columns = []
    for number, names in enumerate(_case_distinct_names(schema)):
        fields = ", ".join(f"{quoted(name)}: variant" for name in names)
        envelope = from_json(text, f"before struct<{fields}>, after struct<{fields}>")
        # A flat record is itself the row.
        flat = from_json(text, fields.replace("`: variant", "` variant"))
        columns += [
            alias(when("envelope.__op IS NOT NULL", flat, f"{envelope}.{side}"), _documents(side, number))
            for side in SIDES
        ]
    return columns


def document_value(side: str, schema: TableSchema, name: str) -> str:
    """The variant of a column, given the name that it had when the record was written."""
    [number] = [number for number, names in enumerate(_case_distinct_names(schema)) if name in names]
    return f"{_documents(side, number)}.{quoted(name)}"


def _documents(side: str, number: int) -> str:
    return f"{side}_documents_{number}"


def _case_distinct_names(schema: TableSchema) -> list[list[str]]:
    """The names of all columns that need a document, in lists within which no two differ only in case."""
    lists: list[list[str]] = []
    for name in sorted({c.name for version in schema.versions for c in version.columns if needs_document(c)}):
        free = (names for names in lists if name.lower() not in map(str.lower, names))
        names = next(free, None)
        if names is None:
            lists.append([name])
        else:
            names.append(name)
    return lists


def value_of_document(text: str, document: str, column: Column) -> str:
    """The exact value of a column; null if its variant has lost digits."""
    to = column.spark_type
    if column.encoding == NUMBER:
        digits = _digits(document)
        return exact_decimal(digits, to) if isinstance(to, DecimalType) else digits
    if isinstance(to, ArrayType):
        return _decimals(text, document, to)
    schema, json = f"schema_of_variant({document})", f"to_json({document})"
    double = f"(rlike({_bare(json)}, {_POINT}) OR rlike({json}, {_INFINITE}))"
    # The column `text` is the whole record.
    hidden = f"contains({schema}, {_MIXED}) AND {double} AND rlike({_bare('text')}, {_LONG})"
    inexact = f"(rlike({schema}, {_DOUBLE}) OR {hidden})"
    # A variant holds JSON's null as a document, which to us is null.
    return when(f"{text} IS NOT NULL AND NOT {inexact}", f"to_json({document})")


def _bare(json: str) -> str:
    """JSON without strings. In two steps: an expression for whole strings would overflow Java's stack."""
    return f"regexp_replace(regexp_replace({json}, {_ESCAPED}, ''), {_STRING}, '')"


def _digits(document: str) -> str:
    """A number's digits, or the text in its place; null if it has become a double."""
    exact = f"schema_of_variant({document}) != 'DOUBLE'"
    return when(exact, f"try_variant_get({document}, '$', 'string')")


def _decimals(text: str, document: str, to: ArrayType) -> str:
    whole = f"try_variant_get({document}, '$', 'array<variant>')"
    parts = when(f"NOT startswith({text}, '[[')", whole)
    digits = f"transform({parts}, each -> {_digits('each')})"
    inexact = f"exists({parts}, each -> NOT is_variant_null(each) AND {_digits('each')} IS NULL)"
    of = to.elementType
    if isinstance(of, StringType):
        return when(f"NOT {inexact}", digits)
    assert isinstance(of, DecimalType)
    decimal = exact_decimal("each", of)
    lost = f"exists({digits}, each -> each IS NOT NULL AND {decimal} IS NULL)"
    return when(f"NOT {inexact} AND NOT {lost}", f"transform({digits}, each -> {decimal})")
