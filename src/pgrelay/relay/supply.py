"""Supplies what the encoder needs from outside: catalogue facts, topics, and registered schemas."""

from collections.abc import Sequence
from typing import Final

import structlog

from pgrelay.encode.avro.schema import SchemaIds, Schemas
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.needs import Announcement, FactsNeeded, Need
from pgrelay.errors import RecordError, SetupError
from pgrelay.kafka.registry import Registry
from pgrelay.kafka.sink import Sink
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.facts import Facts
from pgrelay.postgres.subtransactions import rolled_back
from pgrelay.relay.tasks import gather_limited

_log = structlog.get_logger(__name__)

# How many topics' schemas are registered at a time. After a reconnect, those of every table are due.
_MAX_CONCURRENT: Final = 16


class Supply:
    """Meets one need at a time, beside the loop. `registry` is None in JSON."""

    def __init__(self, encoder: Encoder, catalog: Catalog, sink: Sink, registry: Registry | None) -> None:
        self._encoder = encoder
        self._catalog = catalog
        self._facts = Facts(catalog)
        self._sink = sink
        self._registry = registry
        # Topics that are no longer announced ahead: they were in a batch of which one was refused.
        self._announced_alone: set[str] = set()

    async def meet(self, need: Need) -> None:
        """Get what the encoder needs, and if possible what it will need next (`ahead`), and pass it on."""
        match need:
            case FactsNeeded():
                facts = await self._facts.fetch(need.relation, need.xid)
                ahead = [(other.relation, other.xid) for other in need.ahead]
                self._encoder.provide_facts(facts, await self._facts.fetch_ahead(ahead))
            case Announcement():
                self._encoder.confirm_topic(*await self._announce_with_ahead(need))
            case _:
                # A TopicNeeded: of logical messages or, in Avro, of transactions. The latter topic was
                # required at the start, so one that is missing is of messages.
                await self._sink.topics.require(need.topic, "messages")
                self._encoder.confirm_topic(await self._register(need.schemas))

    async def rolled_back(self, subxids: Sequence[int]) -> list[int]:
        """Those of an ended transaction's subtransactions that were rolled back."""
        found = await rolled_back(self._catalog, subxids)
        if found:
            _log.info("the server sent changes that were rolled back; left out", subtransactions=len(found))
        return found

    async def _announce_with_ahead(
        self, need: Announcement
    ) -> tuple[SchemaIds | None, list[SchemaIds | None]]:
        """Announce the need and what it names ahead; if one of those is refused, the need alone."""
        ahead = {announcement.topic for announcement in need.ahead}
        if ahead and ahead.isdisjoint(self._announced_alone):
            try:
                return await self._announce([need, *need.ahead])
            except (SetupError, RecordError):
                # Announced ahead again, it would make each announcement before its own fail once more.
                self._announced_alone |= ahead
        return await self._announce([need])

    async def _announce(
        self, announcements: list[Announcement]
    ) -> tuple[SchemaIds | None, list[SchemaIds | None]]:
        """Announce them all. Returns the schema ids of the first, and those of the others."""
        await self._sink.topics.require_all([announcement.topic for announcement in announcements])
        ids = await gather_limited(
            self._register, [announcement.schemas for announcement in announcements], _MAX_CONCURRENT
        )
        await self._sink.publish([announcement.record for announcement in announcements])
        return ids[0], ids[1:]

    async def _register(self, schemas: Schemas | None) -> SchemaIds | None:
        if schemas is None:
            return None
        assert self._registry is not None, "Avro without a registry"
        return await self._registry.register(schemas)
