"""The server that a session starts on: its cluster, and where its slot's position and spool are kept."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pgrelay.assembly.spool_base import slot_directory
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
        # Asked first: a standby that is promoted in between must not pass for a primary on its old timeline.
        standby = await catalog.in_recovery()
        return cls(config, catalog, await source.identify(), standby)

    @property
    def offsets(self) -> Offsets:
        """Where Kafka keeps the position of the configured slot."""
        identity = Identity(self.system.systemid, self.catalog.database, self.config.source.slot)
        return Offsets(self.config.sink, topics_of(self.config).offsets, identity)

    @property
    def spool_directory(self) -> Path:
        """Where the transactions of the configured slot wait on disk."""
        spool_dir, slot = self.config.transactions.spool_dir, self.config.source.slot
        return slot_directory(spool_dir, self.system.systemid, slot)

    def upstream(self, slot: Slot) -> Upstream:
        """What a position of `slot` is checked against."""
        primary = None if self.standby else self.system
        slot_lsn = slot.confirmed_flush_lsn or 0
        return Upstream(slot_lsn, self.catalog.wal_end, primary, numbering(self.config))
