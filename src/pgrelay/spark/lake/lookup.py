"""Finds the table of a name: its format and its catalog; refuses names that can't be a table's."""

import re
from typing import Any, Final, get_args

from pyspark.sql import SparkSession

from pgrelay.errors import SetupError
from pgrelay.spark.lake.delta import DeltaTable
from pgrelay.spark.lake.iceberg import IcebergTable
from pgrelay.spark.lake.tables import LakeTable, Using, is_catalog
from pgrelay.spark.names import quoted
from pgrelay.spark.session import require_session

FORMATS: Final[dict[Using, type[LakeTable]]] = {kind.using: kind for kind in (DeltaTable, IcebergTable)}

_SESSION_CATALOG: Final = "spark_catalog"

# Catalog classes that take tables of one format only; others take both, or are unknown to us.
_CATALOG_FORMATS: Final[dict[str, Using]] = {
    "org.apache.spark.sql.delta.catalog.DeltaCatalog": "delta",
    "org.apache.iceberg.spark.SparkCatalog": "iceberg",
}

_PART: Final = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_PLAIN_NAME: Final = re.compile(r"\w+", re.ASCII)
_NAME: Final = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern})){{,2}}")


def lake_table(spark: SparkSession, target: str, using: Using) -> LakeTable:
    """The table of that name: `orders`, `lake.orders`, or with a catalog before it.

    Without a catalog, Delta tables are in the session's catalog and Iceberg tables in `iceberg`. The name is
    fully qualified, so that it can't mean a view, or another table after USE. Raises SetupError as
    `require_session` does, and if it is no table's name, its catalog takes no tables of the format, or there
    is no such format.
    """
    require_session(spark)
    if using not in get_args(Using):
        raise SetupError(f"using={using!r}: write delta or iceberg")
    parts = _parts(target)
    has_catalog = len(parts) > 1 and is_catalog(spark, parts[0])
    if has_catalog:
        _refuse_other_format(spark, target, parts[0], using)
    elif len(parts) > 2 and (using == "iceberg" or _in_session_by_default(spark)):
        # Iceberg would make a namespace of that name in its own catalog.
        raise SetupError(
            f"{target}: the session has no catalog {parts[0]!r}: set spark.sql.catalog.{parts[0]} in its "
            "options, or leave that out"
        )
    elif using == "iceberg":
        parts = ["iceberg", *parts]
    if using == "delta" and (not has_catalog or parts[0] == _SESSION_CATALOG):
        parts = _in_session(spark, target, parts, has_catalog)
    return FORMATS[using](spark, ".".join(quoted(part) for part in parts))


def _parts(target: str) -> list[str]:
    """The identifiers of a name, unquoted. Raises SetupError if it is not a table's name."""
    if not isinstance(target, str) or not _NAME.fullmatch(target):
        raise SetupError(f"{target!r} is not a table name: write orders, lake.orders or catalog.lake.orders")
    return [part[0].replace("``", "`") or part[1] for part in _PART.findall(target)]


def _in_session(spark: SparkSession, target: str, parts: list[str], has_catalog: bool) -> list[str]:
    """The full name of a table in the session's catalog. Raises SetupError if that does not allow it."""
    if not all(_PLAIN_NAME.fullmatch(part) for part in parts):
        raise SetupError(
            f"{target}: the session's catalog, which has Delta's tables, takes only letters from a to z, "
            "digits and _ in names: write another name"
        )
    if has_catalog or not _in_session_by_default(spark):
        return parts
    state: Any = spark._jsparkSession.sessionState()
    database = [state.catalog().getCurrentDatabase()] if len(parts) == 1 else []
    return [_SESSION_CATALOG, *database, *parts]


def _refuse_other_format(spark: SparkSession, target: str, catalog: str, using: Using) -> None:
    """Raise SetupError if a catalog takes no tables of that format."""
    only = _CATALOG_FORMATS.get(spark.conf.get(f"spark.sql.catalog.{catalog}") or "", using)
    if only != using:
        raise SetupError(
            f"{target}: the catalog {catalog!r} takes only {only} tables: write using={only!r}, or name a "
            f"table in another catalog for {using}"
        )


def _in_session_by_default(spark: SparkSession) -> bool:
    """Whether names without a catalog are in the session's catalog: a platform may have another default."""
    return spark.conf.get("spark.sql.defaultCatalog", None) in (None, _SESSION_CATALOG)
