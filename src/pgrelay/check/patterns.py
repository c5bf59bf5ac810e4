"""Patterns of the configuration that match nothing, so that a table is not relayed or a column not hidden.

They are tried on all tables of the database, not only on published ones, since several relays of one database
may share their patterns. Partitions that are published by their own names are matched by those names.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pgrelay.check import table_queries
from pgrelay.check.findings import Finding, first_few, warning
from pgrelay.check.table_queries import Published
from pgrelay.config import Records
from pgrelay.encode.selection import matches
from pgrelay.figures import counted
from pgrelay.postgres.catalog import Catalog

# Tables per query for columns: small steps, since a run checks this while it streams.
_AT_ONCE: Final = 200

_Patterns = Mapping[str, Sequence[str]]


async def pattern_findings(catalog: Catalog, records: Records, published: Published) -> list[Finding]:
    of_tables: _Patterns = {
        "records.tables.include": records.tables.include,
        "records.tables.exclude": records.tables.exclude,
        "records.routes": [route.match for route in records.routes],
    }
    of_columns: _Patterns = {
        "records.columns.drop": records.columns.drop,
        "records.columns.mask": records.columns.mask,
        "records.columns.hash": records.columns.hash,
    }
    if not any((*of_tables.values(), *of_columns.values())):
        return []
    tables = await table_queries.every_table(catalog, published)
    of_tables = unmatched(of_tables, [name for _, name in tables])
    for start in range(0, len(tables), _AT_ONCE):
        if not any(of_columns.values()):
            break
        oids = [oid for oid, _ in tables[start : start + _AT_ONCE]]
        of_columns = unmatched(of_columns, await table_queries.every_column(catalog, oids))
    return unmatched_patterns(of_tables, "table", "schema.table") + unmatched_patterns(
        of_columns, "column", "schema.table.column"
    )


def unmatched(patterns: _Patterns, names: Sequence[str]) -> _Patterns:
    """Each key's patterns that match none of the names."""
    return {
        key: [each for each in given if not any(matches(each, name) for name in names)]
        for key, given in patterns.items()
    }


def unmatched_patterns(patterns: _Patterns, what: str, whole: str) -> list[Finding]:
    return [
        warning(
            f"{key}: {counted(len(given), 'pattern')} without a matching {what}: {first_few(given)}",
            f"a pattern has no effect unless it matches the whole of {whole}; a partition has its own name "
            "unless it is published as its root",
            "correct the pattern (\\. for a dot, and the name's exact case), or remove it",
        )
        for key, given in patterns.items()
        if given
    ]
