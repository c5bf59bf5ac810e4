"""Values whose JSON Spark's parser would rewrite: numbers past a double's digits, and documents.

In a map of texts a JSON number has been a double, and the document "a" is not told from the text a. Such
columns are parsed a second time, as variants, which keep up to 38 digits; what has more is not exact.
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

# Where a document's number has become a double: in its schema, or, of arrays of mixed types, in its text.
_DOUBLE: Final = r"(?:^|<|: )DOUBLE(?:$|,|>)"
_EXPONENT: Final = r"(?:^|[:\[,])-?[0-9.]+E"


def needs_document(column: Column) -> bool:
    """Whether a column's values have to be parsed as variants."""
    if column.encoding in (NUMBER, array_of(NUMBER)):
        return column.type_name.removeprefix("_") == "numeric"
    return column.encoding in (JSON, array_of(JSON))


def documents_of(text: Expression, schema: TableSchema) -> list[Expression]:
    """Structs of variants, where they are needed: the columns that `document_of` takes them out of."""
    is_flat = F.col("envelope.__op").isNotNull()
    columns = []
    for number, names in enumerate(_told_apart(schema)):
        fields = ", ".join(f"{quoted(name)}: variant" for name in names)
        # Of a flat record the row is the record.
        envelope = F.from_json(text, f"before struct<{fields}>, after struct<{fields}>", JSON_OPTIONS)
        flat = F.from_json(text, fields.replace("`: variant", "` variant"), JSON_OPTIONS)
        columns += [
            F.when(is_flat, flat).otherwise(envelope.getField(side)).alias(_documents(side, number))
            for side in ("before", "after")
        ]
    return columns


def document_of(side: str, schema: TableSchema, name: str) -> Expression:
    """The variant of a column, under the name that it had when it was written."""
    [number] = [number for number, names in enumerate(_told_apart(schema)) if name in names]
    return F.col(_documents(side, number)).getField(name)


def _documents(side: str, number: int) -> str:
    return f"{side}_documents_{number}"


def _told_apart(schema: TableSchema) -> list[list[str]]:
    """The names of all columns that need a document; in a list none that Spark takes for another in it."""
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
    """The exact value of a column; null where its variant has lost digits."""
    to = column.spark_type
    if column.encoding == NUMBER:
        digits = _digits(document)
        return exact_decimal(digits, to) if isinstance(to, DecimalType) else digits
    if isinstance(to, ArrayType):
        return _decimals(text, document, to)
    inexact = F.schema_of_variant(document).rlike(_DOUBLE) | F.to_json(document).rlike(_EXPONENT)
    # JSON's null is a document of its own to a variant, and null to us.
    return F.when(text.isNotNull() & ~inexact, F.to_json(document))


def _digits(document: Expression) -> Expression:
    """A number's digits, or what stands in its place; null where it has become a double."""
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
