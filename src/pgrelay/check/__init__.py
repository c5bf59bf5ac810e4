"""Find everything that would stop or hurt a run, each finding with its cure. A check changes nothing.

Theory of operation. A check looks where a run would look: Postgres, the position in Kafka, the slot, the
publications and their tables, Kafka and the topics, the registry, this machine. A failed step skips only the
steps that depend on it. Each `*_findings` asks, and passes the answers to functions that judge them and
return findings. An error would stop a run, or keep it waiting until somebody acts.
"""

from collections.abc import Awaitable
from contextlib import AsyncExitStack

from pgrelay.check import queries
from pgrelay.check.clock import clock_findings
from pgrelay.check.connection import connection_refused, host_findings, replication_findings
from pgrelay.check.findings import CHECK_AGAIN, Finding, error, not_checked
from pgrelay.check.hash_key import hash_key_findings
from pgrelay.check.kafka import kafka_findings
from pgrelay.check.machine import machine_findings
from pgrelay.check.other_slots import other_slot_findings
from pgrelay.check.position import position_findings
from pgrelay.check.publications import publication_findings
from pgrelay.check.registry import registry_findings
from pgrelay.check.server import server_findings
from pgrelay.check.slot import slot_findings, wrong_kind
from pgrelay.check.table_queries import Published
from pgrelay.check.tables import relayed_tables, table_findings
from pgrelay.check.topics import wanted_topics
from pgrelay.check.widths import width_findings
from pgrelay.config import Config
from pgrelay.encode.selection import Selection
from pgrelay.errors import PgrelayError
from pgrelay.kafka.producer_options import largest_record
from pgrelay.postgres.catalog import Catalog
from pgrelay.relay.record_options import selection_of

__all__ = ["Finding", "check"]


async def check(config: Config, *, reads_rows: bool = True) -> list[Finding]:
    """What a run with this configuration would run into. No state of a server makes it raise.

    `reads_rows`: rows of some tables are read, to see how wide they are.
    """
    selection = selection_of(config)
    findings, published = await _check_source(config, selection, reads_rows)
    relayed = relayed_tables(published, selection)
    topics, collisions = wanted_topics(relayed, config)
    findings += collisions
    findings += await kafka_findings(config.sink, topics)
    if config.records.format == "avro":
        findings += await registry_findings(config.records, topics)
    return findings + hash_key_findings(config.records) + machine_findings(config)


async def _check_source(
    config: Config, selection: Selection, reads_rows: bool
) -> tuple[list[Finding], Published]:
    dsn = config.source.dsn
    async with AsyncExitStack() as stack:
        try:
            catalog = await stack.enter_async_context(Catalog(dsn))
        except PgrelayError as refusal:
            return [connection_refused(refusal, dsn)], Published()
        return await _check_catalogue(config, selection, reads_rows, catalog)


async def _check_catalogue(
    config: Config, selection: Selection, reads_rows: bool, catalog: Catalog
) -> tuple[list[Finding], Published]:
    source = config.source
    try:
        server = await queries.server_facts(catalog)
        slot = await catalog.slot(source.slot)
    except PgrelayError as refusal:
        what = "Postgres could not be asked about itself and the slot"
        return [error(what, str(refusal), CHECK_AGAIN)], Published()
    findings = server_findings(server, source, slot is not None) + host_findings(source.dsn)
    findings += await replication_findings(source.dsn)
    findings += await _or_not_checked("the clock", clock_findings(catalog))
    # A slot of another kind says nothing about the position and the publications.
    slot_usable = slot is not None and wrong_kind(slot, source.slot, catalog.database) is None
    position: list[Finding] = []
    if slot is None or slot_usable:
        asked = position_findings(catalog, config, slot, server.standby)
        position = await _or_not_checked("the position in Kafka", asked)
    would_lose_changes = slot is None and any(finding.level == "error" for finding in position)
    if not would_lose_changes:
        # With an error in the position, a run would not create the missing slot.
        findings += await _or_not_checked("the slot", slot_findings(catalog, server, source, slot))
    findings += position
    findings += await _or_not_checked("the other slots", other_slot_findings(catalog, source.slot))
    try:
        more, published = await publication_findings(catalog, server, source, selection, slot_usable)
    except PgrelayError as refusal:
        return [*findings, not_checked("the publications", refusal)], Published()
    findings += more
    findings += await _or_not_checked("the tables", table_findings(catalog, config, published, selection))
    if reads_rows:
        largest = largest_record(config.sink.kafka)
        findings += await _or_not_checked("the rows", width_findings(catalog, published.leaves, largest))
    return findings, published


async def _or_not_checked(what: str, findings: Awaitable[list[Finding]]) -> list[Finding]:
    try:
        return await findings
    except PgrelayError as refusal:
        return [not_checked(what, refusal)]
