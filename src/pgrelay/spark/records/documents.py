"""Values whose JSON Spark's parser would rewrite: numbers past a double's digits, and documents.

In a map of texts a JSON number has passed through a double, and the document "a" looks like the text a. Such
columns are parsed a second time, as variants, which keep up to 38 digits; a number with more is inexact.
"""

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DecimalType, StringType

from pgrelay.encode.types import JSON, NUMBER, array_of
from pgrelay.spark.names import quoted
from pgrelay.spark.records.decimals import exact_decimal
from pgrelay.spark.records.values import JSON_OPTIONS
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableSchema

# Signs that a document's number became a double: in its schema, or for arrays of mixed types in its text.
_DOUBLE: Final = r"(?:^|<|: )DOUBLE(?:$|,|>)"
_EXPONENT: Final = r"(?:^|[:\[,])-?[0-9.]+E"


def needs_document(column: Column) -> bool:
    """Whether a column's values have to be parsed as variants."""
    if column.encoding in (NUMBER, array_of(NUMBER)):
        return column.type_name.removeprefix("_") == "numeric"
    return column.encoding in (JSON, array_of(JSON))


def documents_of(text: Expression, schema: TableSchema) -> list[Expression]:
    """The columns, structs of variants, that `document_of` reads; none if no column needs a document."""
    is_flat = F.col("envelope.__op").isNotNull()
    columns = []
    for number, names in enumerate(_told_apart(schema)):
        fields = ", ".join(f"{quoted(name)}: variant" for name in names)
        # A flat record is itself the row.
        envelope = F.from_json(text, f"before struct<{fields}>, after struct<{fields}>", JSON_OPTIONS)
        flat = F.from_json(text, fields.replace("`: variant", "` variant"), JSON_OPTIONS)
        columns += [
            F.when(is_flat, flat).otherwise(envelope.getField(side)).alias(_documents(side, number))
            for side in ("before", "after")
        ]
    return columns


def document_of(side: str, schema: TableSchema, name: str) -> Expression:
    """The variant of a column, given the name that it had when the record was written."""
    [number] = [number for number, names in enumerate(_told_apart(schema)) if name in names]
    return F.col(_documents(side, number)).getField(name)


def _documents(side: str, number: int) -> str:
    return f"{side}_documents_{number}"


def _told_apart(schema: TableSchema) -> list[list[str]]:
    """The names of all columns that need a document, in lists without two that Spark takes for the same."""
    lists: list[list[str]] = []
    for name in sorted({c.name for version in schema.versions for c in version.columns if needs_document(c)}):
        free = (names for names in lists if name.lower() not in map(str.lower, names))
        names = next(free, None)
        if names is None:
            lists.append([name])
        else:
            names.append(name)
    return lists


def value_of_document(text: Expression, document: Expression, column: Column) -> Expression:
    """The exact value of a column; null if its variant has lost digits."""
    to = column.spark_type
    if column.encoding == NUMBER:
        digits = _digits(document)
        return exact_decimal(digits, to) if isinstance(to, DecimalType) else digits
    if isinstance(to, ArrayType):
        return _decimals(text, document, to)
    inexact = F.schema_of_variant(document).rlike(_DOUBLE) | F.to_json(document).rlike(_EXPONENT)
    # A variant holds JSON's null as a document, which to us is null.
    return F.when(text.isNotNull() & ~inexact, F.to_json(document))


def _digits(document: Expression) -> Expression:
    """A number's digits, or the text in its place; null if it has become a double."""
    return F.when(F.schema_of_variant(document) != "DOUBLE", F.try_variant_get(document, "$", "string"))


def _decimals(text: Expression, document: Expression, to: ArrayType) -> Expression:
    parts = F.when(~text.startswith("[["), F.try_variant_get(document, "$", "array<variant>"))
    texts = F.transform(parts, _digits)
    inexact = F.exists(parts, lambda each: ~F.is_variant_null(each) & _digits(each).isNull())
    of = to.elementType
    if isinstance(of, StringType):
        return F.when(~inexact, texts)
    assert isinstance(of, DecimalType)
    lost = F.exists(texts, lambda each: each.isNotNull() & exact_decimal(each, of).isNull())
    return F.when(~inexact & ~lost, F.transform(texts, lambda each: exact_decimal(each, of)))
