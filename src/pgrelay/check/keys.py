"""What identifies a table's rows, and so the keys of its records.

Source: manual, "ALTER TABLE", REPLICA IDENTITY, and "CREATE PUBLICATION", publish_via_partition_root.
"""

from pgrelay.check import table_queries
from pgrelay.check.findings import Finding, first_few, ok, refusal_findings, warning
from pgrelay.check.table_queries import Published, Table
from pgrelay.config import Config
from pgrelay.encode.selection import Selection
from pgrelay.errors import SetupError
from pgrelay.figures import counted
from pgrelay.postgres.catalog import Catalog


async def key_findings(
    catalog: Catalog, config: Config, published: Published, relayed: Published, selection: Selection
) -> list[Finding]:
    """`relayed` is `published` without the tables that the relay leaves out."""
    return [
        *without_identity(published),
        *identity_not_published(published),
        *roots_without_identity(published),
        *mismatched_partitions(published),
        *unsent_generated_keys(published, await table_queries.unpublished_generated(catalog, published)),
        *deferrable_keys(published),
        *hidden_keys(relayed, selection),
        *(keyless(relayed, config.sink.partitions) if config.records.key else []),
    ]


def without_identity(published: Published) -> list[Finding]:
    """Tables whose rows have no identity: Postgres refuses the updates and deletes that it can't publish."""
    tables = [
        table
        for table in published.leaves
        if table.oid in published.updates_published and not table.identified
    ]
    if not tables:
        return []
    names = first_few([table.quoted for table in tables])
    cures = first_few([_identifying(table) for table in tables], "; ")
    keyless = any(not table.primary_key for table in tables)
    return [
        warning(
            f"{counted(len(tables), 'table')} without replica identity: {names}",
            "while they are published, Postgres refuses every UPDATE and DELETE there; inserts work",
            f"add a primary key, or {cures}" if keyless else cures,
        )
    ]


def _identifying(table: Table) -> str:
    """The statement that gives the table an identity."""
    # A primary key that exists but does not count: the identity is NOTHING, or an index that was dropped.
    by_key = table.primary_key and not table.deferrable
    return f"ALTER TABLE {table.quoted} REPLICA IDENTITY {'DEFAULT' if by_key else 'FULL'}"


def identity_not_published(published: Published) -> list[Finding]:
    """Tables that are published with a column list that lacks a column of their replica identity."""

    def lacks(table: Table) -> bool:
        lists = published.columns.get(table.oid, [])
        full = table.identity == "f" and table.oid in published.updates_published
        return full or any(not set(table.key) <= set(names) for names in lists)

    lacking = [
        table for table in published.tables if table.oid in published.with_column_list and lacks(table)
    ]
    changed = [table.quoted for table in lacking if table.oid in published.updates_published]
    inserted = [table.quoted for table in lacking if table.oid not in published.updates_published]
    what = "published without all columns of the identity:"
    cure = "add those columns to the list (ALTER PUBLICATION ... SET TABLE ...), or publish the whole table"
    findings: list[Finding] = []
    if changed:
        why = "Postgres refuses every UPDATE and DELETE of these tables"
        findings.append(warning(f"{counted(len(changed), 'table')} {what} {first_few(changed)}", why, cure))
    if inserted:
        why = "their records have only a part of the key, which other rows may share (under FULL no key)"
        findings.append(warning(f"{counted(len(inserted), 'table')} {what} {first_few(inserted)}", why, cure))
    return findings


def roots_without_identity(published: Published) -> list[Finding]:
    """Tables without an identity that are published in place of partitions that have one."""
    identified = {published.roots.get(part.oid) for part in published.leaves if part.identified}
    tables = [
        table.quoted
        for table in published.tables
        if table.oid in identified and table.oid in published.updates_published and not table.identified
    ]
    if not tables:
        return []
    cures = [f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in tables]
    return [
        warning(
            f"{counted(len(tables), 'partitioned table')} without replica identity: {first_few(tables)}",
            "its partitions have one, so Postgres accepts their updates and deletes, at which a run stops",
            f"{first_few(cures, '; ')}, and the same for the partitions",
        )
    ]


def mismatched_partitions(published: Published) -> list[Finding]:
    """Partitions that are published as their root but have another replica identity than the root.

    The server announces the root's replica identity, but sends old rows by the partition's.
    """
    roots = {table.oid: table for table in published.tables}

    def differs(part: Table, root: Table) -> bool:
        if part.identity == "f":
            return False
        return root.identity == "f" or set(part.key) != set(root.key)

    parts = [
        part.quoted
        for part in published.leaves
        if (root := roots.get(published.roots.get(part.oid, 0))) is not None
        and root.oid in published.updates_published
        and root.identified
        and part.identified
        and differs(part, root)
    ]
    if not parts:
        return []
    return [
        warning(
            f"{counted(len(parts), 'partition')} with another replica identity than the root: "
            f"{first_few(parts)}",
            "the old rows of their updates and deletes lack columns of the key or the row, and a run that "
            "notices stops",
            "ALTER TABLE ... REPLICA IDENTITY for each of them, as for the root",
        )
    ]


def unsent_generated_keys(published: Published, generated: dict[int, list[str]]) -> list[Finding]:
    """Tables whose key has a generated column that is not sent; `generated` has such columns by OID."""
    tables = [
        table.quoted for table in published.tables if set(table.key) & set(generated.get(table.oid, []))
    ]
    if not tables:
        return []
    return [
        warning(
            f"{counted(len(tables), 'table')} with a generated column in the key: {first_few(tables)}",
            "Postgres does not send it: rows that differ only there get the same key (under FULL no key)",
            "create a unique index on other columns, then ALTER TABLE ... REPLICA IDENTITY USING INDEX",
        )
    ]


def deferrable_keys(published: Published) -> list[Finding]:
    """Tables in which one statement may swap the keys of two rows."""
    tables = [
        table.quoted
        for table in published.tables
        if table.identity == "f" and table.deferrable and table.oid in published.updates_published
    ]
    if not tables:
        return []
    return [
        warning(
            f"{counted(len(tables), 'table')} with a deferrable primary key as the key: {first_few(tables)}",
            "if an UPDATE swaps the keys of two rows, its last record deletes a key that still exists",
            "make the primary key NOT DEFERRABLE",
        )
    ]


def hidden_keys(relayed: Published, selection: Selection) -> list[Finding]:
    """Key columns that are configured to be dropped or masked."""
    why = "a run stops at the first change of the table"
    refusals: list[SetupError] = []
    for table in relayed.tables:
        for column in table.key:
            try:
                selection.treatment(str(table), column, key=True)
            except SetupError as refusal:
                refusals.append(refusal)
    fate, cure = "would be dropped or masked", "leave columns of keys as they are"
    return refusal_findings(refusals, why, noun="key column", fate=fate, cure=cure)


def keyless(published: Published, partitions: int) -> list[Finding]:
    """Tables whose records have no key, except those that are reported for want of an identity."""
    tables = [
        table.quoted
        for table in published.tables
        if not table.key and (table.identified or table.oid not in published.updates_published)
    ]
    if not tables:
        return []
    what = f"records without a key for {counted(len(tables), 'table')}: {first_few(tables)}"
    if partitions == 1:
        return [ok(what)]
    return [
        warning(
            what,
            f"all of them go to partition 0 of {partitions}, to keep their order",
            "give the table a primary key",
        )
    ]
