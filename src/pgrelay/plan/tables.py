"""What a plan asks the catalogue: the published tables, the WAL of each, and the foreign keys between them.

Sources: manual, "pg_stat_all_tables", "pg_stats", "pg_publication_tables", "CREATE PUBLICATION".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import sql

from pgrelay.check import table_queries
from pgrelay.check.table_queries import Publication
from pgrelay.config import SourceConfig
from pgrelay.errors import SetupError
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.publishable import PARTITIONED_SINCE

# Bytes: a row without its columns; a column of unknown width, as the server's planner assumes; the key that
# a delete logs; and the part of a large value that one row of a TOAST table holds.
_ROW_HEADER: Final = 24
_UNKNOWN_WIDTH: Final = 32
_KEY: Final = 40
_TOAST_CHUNK: Final = 2000

_FILTERS_SINCE: Final = 150000
_PLAIN: Final = re.compile(r'[^".*\s]+')


@dataclass(frozen=True, slots=True)
class Table:
    """A unit of the plan: a table, or a partitioned table with its partitions.

    `entry` is its name in `source.tables`. `clause` is its name in CREATE PUBLICATION, with its column list
    and filter if it has them. `volume` is the estimated WAL of its rows so far, in bytes.
    """

    entry: str
    clause: str
    volume: int


@dataclass(frozen=True, slots=True)
class Tables:
    """`ties` are foreign keys, as pairs of the tables' entries; `options` is the WITH clause, if any."""

    published: tuple[Table, ...]
    ties: tuple[tuple[str, str], ...]
    options: str


async def published_tables(catalog: Catalog, source: SourceConfig) -> Tables:
    """What the configured publications hold, or would hold if a run created them. Raises SetupError."""
    found = await table_queries.publications(catalog, source.publications)
    missing = [each.name for each in found if not each.exists]
    if missing and (len(found) > 1 or not source.create):
        raise SetupError(
            f"source.publications: {', '.join(missing)} does not exist in database {catalog.database}; "
            "create it (CREATE PUBLICATION), or correct the name"
        )
    if missing:
        published = await table_queries.planned(catalog, source.table_names())
    else:
        published = await table_queries.published(catalog, source.publications)
    oids = [table.oid for table in published.tables]
    if not oids:
        raise SetupError("source.publications: contain no table, so there is nothing to divide; add tables")
    clauses = {} if missing else await _clauses(catalog, found)
    unit_of = await _units(catalog, oids, clauses)
    names = await _names(catalog, set(unit_of.values()))
    volumes = dict.fromkeys(names, 0)
    for oid, volume in (await _volumes(catalog, list(unit_of))).items():
        volumes[unit_of[oid]] += volume
    ties = [
        (names[unit_of[one]][0], names[unit_of[other]][0])
        for one, other in await _foreign_keys(catalog, list(unit_of))
    ]
    made = [
        Table(entry, quoted + clauses.get(oid, ""), volumes[oid]) for oid, (entry, quoted) in names.items()
    ]
    options = "" if missing else await _options(catalog, found)
    return Tables(tuple(sorted(made, key=lambda table: table.entry)), tuple(ties), options)


async def _units(catalog: Catalog, oids: Sequence[int], clauses: dict[int, str]) -> dict[int, int]:
    """The unit of each table, by OID: a partition's is its root if all partitions are published alike.

    The keys are the tables with rows, and the partitioned tables above them.
    """
    leaves = dict(await table_queries.leaves(catalog, oids))
    units = leaves | {oid: oid for oid in leaves.values()}
    if catalog.server_version < PARTITIONED_SINCE:
        return units
    query = sql.SQL(
        "SELECT o, pg_partition_root(o)::oid FROM unnest(%s::oid[]) o WHERE pg_partition_root(o) <> o"
    )
    rows = await catalog.rows(query, (list(leaves),))
    roots = {leaf: root for leaf, root in rows if leaves[leaf] == leaf}
    whole: dict[int, list[int]] = {}
    for leaf, root in await table_queries.leaves(catalog, set(roots.values())):
        whole.setdefault(root, []).append(leaf)
    for root, parts in whole.items():
        if all(roots.get(part) == root and part not in clauses for part in parts):
            units |= dict.fromkeys([root, *parts], root)
    return units


async def _names(catalog: Catalog, oids: set[int]) -> dict[int, tuple[str, str]]:
    """Each table's name in `source.tables` and in SQL."""
    return {
        table.oid: (f"{_as_entry(table.schema)}.{_as_entry(table.name)}", table.quoted)
        for table in await table_queries.tables(catalog, sorted(oids))
    }


def _as_entry(name: str) -> str:
    """A name as it is written in `source.tables`."""
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


async def _volumes(catalog: Catalog, oids: Sequence[int]) -> dict[int, int]:
    """Bytes of rows written since the statistics began: counts times width, plus chunks of large values.

    An update counts its new row, a delete its key; under REPLICA IDENTITY FULL both count the old row. The
    width is that of ANALYZE if our role may read it, else that of the types.
    """
    query = sql.SQL(
        "SELECT c.oid, ((s.n_tup_ins + s.n_tup_upd) * w.width "
        "+ CASE WHEN c.relreplident = 'f' THEN (s.n_tup_upd + s.n_tup_del) * w.width "
        "ELSE s.n_tup_del * {key} END + coalesce(t.n_tup_ins, 0) * {chunk})::bigint "
        "FROM pg_class c JOIN pg_stat_all_tables s ON s.relid = c.oid "
        "LEFT JOIN pg_stat_all_tables t ON t.relid = c.reltoastrelid CROSS JOIN LATERAL ("
        "SELECT {header} + coalesce(sum(coalesce(p.avg_width * (1 - p.null_frac), "
        "CASE WHEN a.attlen > 0 THEN a.attlen ELSE {unknown} END)), 0) AS width "
        "FROM pg_attribute a LEFT JOIN pg_stats p ON p.schemaname = s.schemaname "
        "AND p.tablename = s.relname AND p.attname = a.attname AND NOT p.inherited "
        "WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) w WHERE c.oid = ANY (%s)"
    ).format(key=_KEY, chunk=_TOAST_CHUNK, header=_ROW_HEADER, unknown=_UNKNOWN_WIDTH)
    return dict(await catalog.rows(query, (list(oids),)))


async def _foreign_keys(catalog: Catalog, oids: Sequence[int]) -> list[tuple[int, int]]:
    query = sql.SQL(
        "SELECT DISTINCT conrelid, confrelid FROM pg_constraint "
        "WHERE contype = 'f' AND conrelid = ANY (%s) AND confrelid = ANY (%s)"
    )
    return [(row[0], row[1]) for row in await catalog.rows(query, (list(oids), list(oids)))]


async def _clauses(catalog: Catalog, publications: Sequence[Publication]) -> dict[int, str]:
    """Column list and filter of each table that has one, as SQL. Raises SetupError if publications differ."""
    if catalog.server_version < _FILTERS_SINCE:
        return {}
    query = sql.SQL(
        "SELECT c.oid, format('%%I.%%I', t.schemaname, t.tablename), array_agg(DISTINCT concat("
        "CASE WHEN r.prattrs IS NOT NULL THEN (SELECT ' (' || string_agg(quote_ident(n), ', ') || ')' "
        "FROM unnest(t.attnames) n) END, ' WHERE (' || t.rowfilter || ')')) "
        "FROM pg_publication_tables t JOIN pg_publication p ON p.pubname = t.pubname "
        "JOIN pg_namespace n ON n.nspname = t.schemaname "
        "JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename "
        "LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = c.oid "
        "WHERE t.pubname = ANY (%s) GROUP BY 1, 2"
    )
    rows = await catalog.rows(query, ([each.name for each in publications],))
    differing = [name for _, name, clauses in rows if len(clauses) > 1]
    if differing:
        raise SetupError(
            f"source.publications: publish different columns or rows of {', '.join(differing)}; "
            "give each table the same column list and filter in all of them"
        )
    return {oid: clauses[0] for oid, _, clauses in rows if clauses[0]}


async def _options(catalog: Catalog, publications: Sequence[Publication]) -> str:
    """The publications' options as SQL. Raises SetupError if they are not the same for all."""
    version = catalog.server_version
    query = sql.SQL("SELECT pubname, {}, {} FROM pg_publication WHERE pubname = ANY (%s)").format(
        sql.SQL("pubviaroot" if version >= PARTITIONED_SINCE else "false"),
        sql.SQL("pubgencols = 's'" if version >= 180000 else "false"),
    )
    rows = await catalog.rows(query, ([each.name for each in publications],))
    flags_of: dict[str, Any] = {name: flags for name, *flags in rows}
    combinations = {(each.operations, *flags_of[each.name]) for each in publications}
    if len(combinations) > 1:
        names = ", ".join(each.name for each in publications)
        raise SetupError(
            f"source.publications: {names} have different options; make them equal with ALTER PUBLICATION"
        )
    operations, via_root, generated = combinations.pop()
    written = []
    if len(operations) < (4 if version >= 110000 else 3):
        written.append(f"publish = '{', '.join(operations)}'")
    if via_root:
        written.append("publish_via_partition_root = true")
    if generated:
        written.append("publish_generated_columns = stored")
    return f" WITH ({', '.join(written)})" if written else ""
