"""The tables that a run relays: what would fail, and what would not arrive as intended."""

from collections.abc import Sequence
from dataclasses import replace

from pgrelay.check import table_queries
from pgrelay.check.findings import Finding, error, first_few, ok, warning
from pgrelay.check.keys import key_findings
from pgrelay.check.patterns import pattern_findings
from pgrelay.check.table_queries import Column, Published, lists_differ
from pgrelay.config import Config
from pgrelay.encode.binary.values import binary_encoding
from pgrelay.encode.encodings import Encodings
from pgrelay.encode.records import FLAT_NAMES
from pgrelay.encode.selection import DROP, MASK, Selection
from pgrelay.encode.types import ColumnType, builtin_type
from pgrelay.figures import counted
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.facts import Facts
from pgrelay.relay.record_options import encodings_of


async def table_findings(
    catalog: Catalog, config: Config, published: Published, selection: Selection
) -> list[Finding]:
    relayed = relayed_tables(published, selection)
    return [
        *await key_findings(catalog, config, published, relayed, selection),
        *conflicting_columns(published),
        *left_out_tables(published, relayed),
        *unsent_partition_truncates(relayed),
        *await pattern_findings(catalog, config.records, published),
        *await _unlogged(catalog, published),
        *await _unpublished_children(catalog, published, relayed),
        *(await _unreadable_binary(catalog, config, relayed, selection) if config.source.binary else []),
        *(await _name_clashes(catalog, relayed, selection) if config.records.envelope == "flat" else []),
    ]


def relayed_tables(published: Published, selection: Selection) -> Published:
    """`published` without the tables that the relay leaves out."""
    taken = tuple(table for table in published.tables if selection.is_relayed(str(table)))
    return replace(published, tables=taken)


def left_out_tables(published: Published, relayed: Published) -> list[Finding]:
    count = len(published.tables) - len(relayed.tables)
    if not count:
        return []
    what = f"records.tables leaves out {count:,} of {counted(len(published.tables), 'published table')}"
    if relayed.tables:
        return [ok(what)]
    cure = "write patterns that match the whole of schema.table: public\\.orders_.*"
    return [warning(what, "there is nothing to relay", cure)]


def conflicting_columns(published: Published) -> list[Finding]:
    tables = [
        table.quoted for table in published.tables if lists_differ(published.columns.get(table.oid, []))
    ]
    if not tables:
        return []
    return [
        error(
            f"{counted(len(tables), 'table')} published with different columns: {first_few(tables)}",
            "Postgres ends the stream if its publications disagree on a table's columns",
            "give the table the same column list in all of source.publications",
        )
    ]


def unsent_partition_truncates(relayed: Published) -> list[Finding]:
    """Tables whose partitions may vanish without a word from Postgres (pgoutput_truncate), if it matters."""
    roots = set(relayed.roots.values())
    tables = [table.quoted for table in relayed.tables if table.oid in roots]
    if not tables or not relayed.truncates:
        return []
    return [
        warning(
            f"{counted(len(tables), 'partitioned table')} published as one, with truncates: "
            f"{first_few(tables)}",
            "Postgres sends nothing for a TRUNCATE, DETACH or DROP of one partition: consumers keep its rows",
            "DELETE a partition's rows before such a statement; if you do, leave truncate out of publish",
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
            f"{counted(len(tables), 'unlogged table')}: {first_few(tables)}",
            "the WAL has no changes of unlogged tables, so they are not relayed",
            first_few([f"ALTER TABLE {name} SET LOGGED" for name in tables], "; ") + ", if they should be",
        )
    ]


async def _unpublished_children(catalog: Catalog, published: Published, relayed: Published) -> list[Finding]:
    parents = [table.oid for table in relayed.tables]
    tables = await table_queries.unpublished_children(catalog, parents, published)
    if not tables:
        return []
    # Without ONLY, Postgres refuses it if it has a table that inherits from one of these.
    added = first_few([f"ONLY {table}" for table in tables])
    return [
        warning(
            f"{counted(len(tables), 'table')} not published, but the parent is: {first_few(tables)}",
            "a query of the parent shows their rows too, which are not relayed",
            f"if no other relay has them, ALTER PUBLICATION ... ADD TABLE {added}; or, if a run creates it, "
            "list them in source.tables",
        )
    ]


async def _unreadable_binary(
    catalog: Catalog, config: Config, relayed: Published, selection: Selection
) -> list[Finding]:
    columns = [
        column
        for column in await table_queries.binary_columns(catalog, relayed)
        if selection.treatment(f"{column.schema}.{column.table}", column.name, key=False) not in (DROP, MASK)
    ]
    unknown = {column.type_oid for column in columns if builtin_type(column.type_oid) is None}
    types = await Facts(catalog).types(unknown) if unknown else {}
    encoding = await catalog.setting("server_encoding")
    return unreadable_binary(columns, types, encodings_of(config, encoding, catalog.server_version))


def unreadable_binary(
    columns: Sequence[Column], types: dict[int, ColumnType], encodings: Encodings
) -> list[Finding]:
    """Columns whose binary form we can't decode; `types` has the types that are not built in."""
    names = [
        f"{column.quoted}.{column.name} ({column.type_name})"
        for column in columns
        if not _is_readable(
            builtin_type(column.type_oid, column.typmod) or types.get(column.type_oid), encodings
        )
    ]
    if not names:
        return []
    return [
        error(
            f"source.binary: pgrelay can't read the binary form of {first_few(names)}",
            "the first row of such a table stops the relay, whatever value the column has",
            "set source.binary: false",
        )
    ]


async def _name_clashes(catalog: Catalog, relayed: Published, selection: Selection) -> list[Finding]:
    """Columns named like a member that the flat envelope adds; another relay's sink may have created them."""
    columns = [
        f"{table.quoted}.{name}"
        for table, name in await table_queries.columns_named(catalog, relayed, FLAT_NAMES)
        if selection.treatment(str(table), name, key=False) != DROP
    ]
    if not columns:
        return []
    return [
        error(
            f"records.envelope: flat adds members with the same names as {first_few(columns)}",
            "the first row of such a table stops the relay",
            "drop the columns with records.columns.drop, or set records.envelope: debezium",
        )
    ]


def _is_readable(column: ColumnType | None, encodings: Encodings) -> bool:
    return column is not None and binary_encoding(column, encodings) is not None
