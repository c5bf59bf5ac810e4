"""The server that a session starts on: its cluster, and what a position in Kafka is checked against."""

from dataclasses import dataclass
from typing import Self

from pgrelay.config import Config
from pgrelay.kafka.offsets import Identity, Offsets
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.slots import Slot
from pgrelay.postgres.source import Source, System
from pgrelay.relay.gap_checks import Upstream
from pgrelay.relay.numbering import numbering
from pgrelay.relay.record_options import topics_of


@dataclass(frozen=True, slots=True)
class Server:
    """`system` is its cluster and timeline, `standby` says if it is a standby, `catalog` answers the rest."""

    config: Config
    catalog: Catalog
    system: System
    standby: bool

    @classmethod
    async def identify(cls, config: Config, catalog: Catalog, source: Source) -> Self:
        # Asked first: a standby promoted in between must not pass for a primary on its old timeline.
        standby = await catalog.in_recovery()
        return cls(config, catalog, await source.identify(), standby)

    @property
    def offsets(self) -> Offsets:
        """Where Kafka keeps the position of the configured slot."""
        identity = Identity(self.system.systemid, self.catalog.database, self.config.source.slot)
        return Offsets(self.config.sink, topics_of(self.config).offsets, identity)

    def upstream(self, slot: Slot) -> Upstream:
        """What a position of `slot` is checked against."""
        primary = None if self.standby else self.system
        slot_lsn = slot.confirmed_flush_lsn or 0
        return Upstream(slot_lsn, self.catalog.wal_end, primary, numbering(self.config))
