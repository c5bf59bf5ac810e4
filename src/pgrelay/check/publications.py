"""The publications: whether they exist or a run can create them, and what they hold."""

from collections.abc import Sequence
from dataclasses import replace

from psycopg import sql

from pgrelay.check import table_queries
from pgrelay.check.findings import Finding, error, first_few, ok, refusal_finding, warning
from pgrelay.check.queries import ServerFacts
from pgrelay.check.table_queries import Publication, Published, TableEntry
from pgrelay.check.tables import relayed_tables
from pgrelay.config import SourceConfig
from pgrelay.encode.selection import Selection
from pgrelay.errors import RESET_CURE, SetupError
from pgrelay.figures import counted
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.publishable import PARTITIONED_SINCE, SCHEMAS_SINCE, publication_statement


async def publication_findings(
    catalog: Catalog, server: ServerFacts, config: SourceConfig, selection: Selection, slot_exists: bool
) -> tuple[list[Finding], Published]:
    """What is wrong with the publications, and the tables that they hold or would hold."""
    publications = await table_queries.publications(catalog, config.publications)
    missing = [each for each in publications if not each.exists]
    if not missing:
        published = replace(
            await table_queries.published(catalog, config.publications),
            truncates=any("truncate" in each.operations for each in publications),
        )
        differences: list[Finding] = []
        if config.tables:
            expected = await table_queries.planned(catalog, config.table_names())
            differences = differences_from_config(expected, published, selection, publications[0].quoted)
        return [*existing_publications(publications, published), *differences], published
    if slot_exists or not config.create or len(publications) > 1:
        published = await table_queries.published(catalog, config.publications)
        return [missing_publications(missing, config, server.database, slot_exists)], published
    return await _creation_findings(catalog, server, config, missing[0])


def existing_publications(publications: Sequence[Publication], published: Published) -> list[Finding]:
    names = _names(publications)
    if not published.tables:
        first = next((each for each in publications if not each.all_tables), None)
        cure = "create a table" if first is None else f"ALTER PUBLICATION {first.quoted} ADD TABLE ..."
        return [warning(f"{names} {_holds(publications)} no table", "there is nothing to relay", cure)]
    operations = list(dict.fromkeys(operation for each in publications for operation in each.operations))
    tables = counted(len(published.tables), "table")
    publish = "publishes" if len(publications) == 1 else "publish"
    every = " (all: new tables as well)" if published.schemas is None else ""
    what = ", ".join(operations) or "nothing"
    return [ok(f"{names} {_holds(publications)} {tables}{every}, and {publish} {what}")]


def missing_publications(
    missing: Sequence[Publication], config: SourceConfig, database: str, slot_exists: bool
) -> Finding:
    what = f"{_names(missing)} {'does' if len(missing) == 1 else 'do'} not exist in database {database}"
    if slot_exists:
        return error(
            what,
            f"slot {config.slot} exists: its stream lacks the changes since the publication was dropped",
            f"correct source.publications; or {RESET_CURE}",
        )
    why = (
        "source.create is false"
        if not config.create
        else "a run creates a publication only if it is the only one"
    )
    first = missing[0].quoted
    return error(
        what,
        f"{why}, so a run stops",
        f"CREATE PUBLICATION {first} FOR ALL TABLES (or FOR TABLE ...), or correct source.publications",
    )


def _names(publications: Sequence[Publication]) -> str:
    noun = "publication" if len(publications) == 1 else "publications"
    return f"{noun} {first_few([each.name for each in publications])}"


def _holds(publications: Sequence[Publication]) -> str:
    return "holds" if len(publications) == 1 else "hold"


async def _creation_findings(
    catalog: Catalog, server: ServerFacts, config: SourceConfig, publication: Publication
) -> tuple[list[Finding], Published]:
    names = config.table_names()
    entries = await table_queries.entries(catalog, names)
    unusable = unusable_entries(entries, server.version)
    published = await table_queries.planned(catalog, names)
    if unusable:
        return unusable, published
    try:
        statement = await publication_statement(catalog, publication.name, names)
    except SetupError as refusal:
        return [refusal_finding(refusal, "a run can't create the publication")], published
    denied = missing_rights(publication.name, entries, server, statement.as_string())
    return denied or [will_create(publication.name, config.tables, published)], published


def will_create(name: str, tables: Sequence[str], published: Published) -> Finding:
    of = first_few(tables) if tables else "all tables"
    what = f"publication {name} does not exist; a run creates it for {of}"
    if published.tables:
        return ok(f"{what}: {len(published.tables):,} now")
    return warning(f"{what}: none now", "there is nothing to relay yet", "create a table")


def unusable_entries(entries: Sequence[TableEntry], version: int) -> list[Finding]:
    """Entries of `source.tables` that CREATE PUBLICATION refuses."""
    cure = "correct source.tables"
    why = "a run can't create the publication"
    findings: list[Finding] = []
    gone = [str(entry) for entry in entries if not _exists(entry)]
    if gone:
        findings.append(error(f"source.tables: these do not exist: {first_few(gone)}", why, cure))
    kinds = "rp" if version >= PARTITIONED_SINCE else "r"
    odd = [str(entry) for entry in entries if entry.kind is not None and entry.kind not in kinds]
    if odd:
        findings.append(error(f"source.tables: these can't be published: {first_few(odd)}", why, cure))
    fleeting = [str(e) for e in entries if e.kind == "r" and e.persistence != "p"]
    if fleeting:
        logged = first_few([f"ALTER TABLE {name} SET LOGGED" for name in fleeting], "; ")
        findings.append(
            error(f"source.tables: these are unlogged: {first_few(fleeting)}", why, f"{logged}, or {cure}")
        )
    return findings


def _exists(entry: TableEntry) -> bool:
    return entry.schema_exists and (entry.table is None or entry.kind is not None)


def missing_rights(
    name: str, entries: Sequence[TableEntry], server: ServerFacts, statement: str
) -> list[Finding]:
    """What our role lacks to create the publication (manual, CREATE PUBLICATION, "Notes")."""
    if server.standby:
        what = f"publication {name} can't be created here"
        cure = f"on the primary: {statement}; or correct source.publications"
        return [error(what, "the server is a standby", cure)]
    if server.superuser:
        return []
    what = f"role {server.role} may not create publication {name}"
    as_superuser = f"as a superuser: {statement}; or correct source.publications"
    if not entries or (server.version >= SCHEMAS_SINCE and any(entry.table is None for entry in entries)):
        return [error(what, "only a superuser may publish all tables or a whole schema", as_superuser)]
    if not server.may_create:
        why = f"it has no right to CREATE in database {server.database}"
        database, role = _quoted(server.database), _quoted(server.role)
        return [error(what, why, f"GRANT CREATE ON DATABASE {database} TO {role}; or {as_superuser}")]
    others = [str(entry) for entry in entries if entry.table is not None and not entry.owned]
    if others:
        return [error(what, f"{first_few(others)} is another role's table", as_superuser)]
    return []


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string()


def differences_from_config(
    expected: Published, published: Published, selection: Selection, publication: str
) -> list[Finding]:
    """How an existing publication differs from `source.tables`, which a run only creates one by."""
    why = "source.tables has no effect on a publication that exists"
    findings: list[Finding] = []
    held = {table.oid for table in published.leaves}
    missing = [table.quoted for table in expected.tables if table.oid not in held]
    if missing:
        what = f"not published, of source.tables: {counted(len(missing), 'table')}: {first_few(missing)}"
        added = first_few([f"ONLY {table}" for table in missing])
        findings.append(warning(what, why, f"ALTER PUBLICATION {publication} ADD TABLE {added}"))
    # Of a partitioned table that is published as one, only the partitions are among those expected.
    listed = {table.oid for table in expected.leaves}
    partitions = {root: set[int]() for root in published.roots.values()}
    for leaf, root in published.roots.items():
        partitions[root].add(leaf)
    more = [
        table.quoted
        for table in relayed_tables(published, selection).tables
        if not (partitions.get(table.oid) or {table.oid} & held) <= listed
    ]
    if more:
        what = f"{counted(len(more), 'table')} not in source.tables would be relayed: {first_few(more)}"
        cure = "leave them out with records.tables, or drop them from the publication"
        findings.append(warning(what, why, cure))
    return findings
