"""The tables that a run relays: what fails once they are published, or does not arrive as meant."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pgrelay.catalog import Catalog
from pgrelay.check import table_queries
from pgrelay.check.findings import Finding, counted, error, ok, refused, some, warning
from pgrelay.check.table_queries import Column, Published, Table, differing
from pgrelay.config import Config
from pgrelay.encode.binary import binary_encoding
from pgrelay.encode.selection import DROP, MASK, Selection
from pgrelay.encode.types import ColumnType, Encodings, builtin_type
from pgrelay.errors import SetupError

_SHOWN: Final = 5


async def table_findings(
    catalog: Catalog, config: Config, published: Published, selection: Selection
) -> list[Finding]:
    relayed = selected(published, selection)
    return [
        *unidentified(published),
        *uncovered(published),
        *conflicting(published),
        *unselected(published, relayed),
        *hidden_keys(relayed, selection),
        *(keyless(relayed, config.sink.partitions) if config.records.key else []),
        *await _unlogged(catalog, published),
        *(await _unreadable(catalog, relayed, selection) if config.source.binary else []),
    ]


def selected(published: Published, selection: Selection) -> Published:
    """What is published, less the tables that the relay leaves out."""
    taken = tuple(table for table in published.tables if selection.takes(str(table)))
    return replace(published, tables=taken)


def unselected(published: Published, relayed: Published) -> list[Finding]:
    left_out = len(published.tables) - len(relayed.tables)
    if not left_out:
        return []
    what = f"records.tables leaves out {left_out:,} of {counted(len(published.tables), 'published table')}"
    if relayed.tables:
        return [ok(what)]
    cure = "write the patterns for the whole of schema.table: public\\.orders_.*"
    return [warning(what, "there is nothing to relay", cure)]


def hidden_keys(relayed: Published, selection: Selection) -> list[Finding]:
    """Columns that are to be dropped or masked, but tell rows apart."""
    why = "a run stops at the first change of the table"
    found: list[Finding] = []
    for table in relayed.tables:
        for column in table.key:
            try:
                selection.treatment(str(table), column, key=True)
            except SetupError as refusal:
                found.append(refused(refusal, why))
    return found[:_SHOWN]


def unidentified(published: Published) -> list[Finding]:
    """Tables whose rows Postgres can't tell apart: it refuses to change what it could not publish."""
    tables = [
        table.quoted for table in published.stored if table.oid in published.changed and not table.identified
    ]
    if not tables:
        return []
    cures = [f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in tables]
    return [
        warning(
            f"{counted(len(tables), 'table')} without primary key or replica identity: {some(tables)}",
            "while published, Postgres refuses every UPDATE and DELETE there; inserts flow",
            f"a primary key, or {some(cures, '; ')}",
        )
    ]


def uncovered(published: Published) -> list[Finding]:
    """Tables that are published by a list of columns in which their identity is not whole."""

    def lacks(table: Table) -> bool:
        lists = published.columns.get(table.oid, [])
        return table.identity == "f" or any(not set(table.key) <= set(names) for names in lists)

    tables = [
        table.quoted
        for table in published.tables
        if table.oid in published.listed & published.changed and lacks(table)
    ]
    if not tables:
        return []
    return [
        warning(
            f"{counted(len(tables), 'table')} published without all columns of the identity: {some(tables)}",
            "Postgres refuses every UPDATE and DELETE on them",
            "add those columns to the list (ALTER PUBLICATION ... SET TABLE ...), or publish the whole table",
        )
    ]


def conflicting(published: Published) -> list[Finding]:
    tables = [table.quoted for table in published.tables if differing(published.columns.get(table.oid, []))]
    if not tables:
        return []
    return [
        error(
            f"{counted(len(tables), 'table')} published with different columns: {some(tables)}",
            "Postgres ends the stream when publications of one stream disagree on a table's columns",
            "give the table the same column list in all of source.publications",
        )
    ]


def keyless(published: Published, partitions: int) -> list[Finding]:
    """Tables whose records have no key; those that `unidentified` tells of are told once."""
    tables = [
        table.quoted
        for table in published.tables
        if not table.key and (table.identified or table.oid not in published.changed)
    ]
    if not tables:
        return []
    what = f"records without key for {counted(len(tables), 'table')}: {some(tables)}"
    if partitions == 1:
        return [ok(what)]
    return [
        warning(
            what,
            f"all of them go to partition 0 of {partitions}, so that their order holds",
            "give the table a primary key",
        )
    ]


async def _unlogged(catalog: Catalog, published: Published) -> list[Finding]:
    if published.schemas == ():
        return []
    tables = await table_queries.unlogged(catalog, published.schemas)
    if not tables:
        return []
    return [
        warning(
            f"{counted(len(tables), 'unlogged table')}: {some(tables)}",
            "changes of unlogged tables are in no WAL and are not relayed",
            some([f"ALTER TABLE {name} SET LOGGED" for name in tables], "; ") + ", if they should be",
        )
    ]


async def _unreadable(catalog: Catalog, relayed: Published, selection: Selection) -> list[Finding]:
    columns = [
        column
        for column in await table_queries.binary_columns(catalog, relayed)
        if selection.treatment(f"{column.schema}.{column.table}", column.name, key=False) not in (DROP, MASK)
    ]
    unknown = {column.type_oid for column in columns if builtin_type(column.type_oid) is None}
    return unreadable(columns, await catalog.types(unknown) if unknown else {})


def unreadable(columns: Sequence[Column], types: dict[int, ColumnType]) -> list[Finding]:
    """Columns whose binary form we don't read; `types` are those that are not built in."""
    names = [
        f"{column.quoted}.{column.name} ({column.type_name})"
        for column in columns
        if not _is_read(builtin_type(column.type_oid, column.typmod) or types.get(column.type_oid))
    ]
    if not names:
        return []
    return [
        error(
            f"source.binary: no binary form is known for {some(names)}",
            "the first such value stops the relay",
            "set source.binary: false",
        )
    ]


def _is_read(column: ColumnType | None) -> bool:
    return column is not None and binary_encoding(column, Encodings()) is not None
