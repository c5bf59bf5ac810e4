"""The SQL that goes with a plan: publications, and new slots that begin where the old one ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from psycopg import sql

from pgrelay.config import Config
from pgrelay.figures import counted, size
from pgrelay.plan.shards import Shard
from pgrelay.plan.tables import Tables
from pgrelay.printable import printable

_SLOT_COPY_SINCE: Final = 120000


@dataclass(frozen=True, slots=True)
class Part:
    """One relay of the plan."""

    file: Path
    slot: str
    publication: str
    shard: Shard


def script(
    config: Config, parts: Sequence[Part], found: Tables, version: int, slot_exists: bool, create: bool
) -> str:
    """The plan as SQL, with comments that say what is planned and when to run each statement."""
    lines = [*_summary(parts), *_hints(config), ""]
    if create:
        lines.append("-- Each relay creates its publication and slot when it starts. By hand it would be:")
        # A table's name may hold a line break.
        by_hand = "\n".join(_publications(parts, found)).splitlines()
        return "\n".join([*lines, *(f"-- {line}" for line in by_hand)])
    lines += ["-- 1. Now:", *_publications(parts, found), ""]
    if slot_exists and version >= _SLOT_COPY_SINCE:
        lines += _handover(config.source.slot, parts)
    else:
        lines += _new_slots(config.source.slot if slot_exists else None, parts)
    return "\n".join(lines)


def _summary(parts: Sequence[Part]) -> list[str]:
    whole = sum(part.shard.volume for part in parts)
    lines = []
    for part in parts:
        share = (
            f"{part.shard.volume / whole:.0%} of the rows' WAL, {size(part.shard.volume)}" if whole else ""
        )
        of = counted(len(part.shard.tables), "table")
        lines.append(f"-- {printable(str(part.file))}: slot {part.slot}, {of}{', ' + share if share else ''}")
    if not whole:
        lines.append("-- Postgres has counted no writes yet: each relay gets about as many tables.")
    return lines


def _hints(config: Config) -> list[str]:
    lines = ["-- A table that is created later is in no publication: add it to one."]
    if config.http.listen is not None:
        lines.append("-- Each relay on a host needs its own http.listen: PGRELAY_HTTP__LISTEN=127.0.0.1:8081")
    if config.source.two_phase:
        lines.append("-- source.two_phase: hand the slot over while pg_prepared_xacts is empty.")
    if config.records.transaction_topic:
        lines += [
            "-- records.transaction_topic: every relay reports a transaction, with its own tables only.",
            "--    A Spark mirror of whole transactions needs another records.prefix for each relay.",
        ]
    return lines


def _publications(parts: Sequence[Part], found: Tables) -> list[str]:
    clauses = {table.entry: table.clause for table in found.published}
    return [
        # Without ONLY, the tables that inherit from one would come too, from two relays.
        f"CREATE PUBLICATION {sql.Identifier(part.publication).as_string()} FOR TABLE "
        f"{', '.join(f'ONLY {clauses[table]}' for table in part.shard.tables)}{found.options};"
        for part in parts
    ]


def _handover(slot: str, parts: Sequence[Part]) -> list[str]:
    """The new slots as copies of the old: they begin at the LSN that the old relay has confirmed.

    The publications must be older than that LSN. If one is not, or the relay runs, no row is returned.
    """
    names = ", ".join(_literal(part.publication) for part in parts)
    ready = (
        f"WHERE slot_name = {_literal(slot)} AND NOT active AND NOT EXISTS (\n"
        f"    SELECT FROM pg_publication WHERE pubname IN ({names})\n"
        "    AND age(pg_publication.xmin) <= age(catalog_xmin));"
    )
    copies = [
        f"SELECT pg_copy_logical_replication_slot(slot_name, {_literal(part.slot)})\n"
        "  FROM pg_replication_slots\n"
        f"  {ready}"
        for part in parts
    ]
    return [
        "-- 2. Some seconds later stop the relay (SIGTERM), then run this. One row each: done. No row:",
        "--    it still runs, or stopped before it had passed the new publications; start it again and wait.",
        *copies,
        "",
        "-- 3. Start the new relays, and once they stream:",
        f"-- SELECT pg_drop_replication_slot({_literal(slot)});",
    ]


def _new_slots(old: str | None, parts: Sequence[Part]) -> list[str]:
    create = [
        f"SELECT pg_create_logical_replication_slot({_literal(part.slot)}, 'pgoutput');" for part in parts
    ]
    if old is None:
        return ["-- 2. Then, before the relays start:", *create]
    return [
        "-- 2. Then run these. Before PostgreSQL 12 a slot can't be copied, so rows written until the old",
        "--    relay has stopped are relayed twice, with another seq. To avoid that, stop writers first:",
        *create,
        "",
        "-- 3. Stop the relay once it has passed these slots, start the new ones, and drop the old slot.",
    ]


def _literal(text: str) -> str:
    return sql.Literal(text).as_string().strip()
