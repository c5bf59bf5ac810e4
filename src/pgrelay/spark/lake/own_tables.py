"""Tables of our own beside the targets: nobody else reads them, or an old version of them."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from pgrelay.spark.lake.delta_log import shed_entries
from pgrelay.spark.lake.tables import LakeTable

# For a driver of ours that reads at this moment.
_KEPT: Final = timedelta(minutes=10)

# Delta keeps entries of its log for at least as long as deleted files.
_RETENTION: Final[dict[str, str]] = {
    f"delta.{name}": f"interval {_KEPT // timedelta(minutes=1)} minutes"
    for name in ("deletedFileRetentionDuration", "logRetentionDuration")
}


class OwnTable(LakeTable):
    """A table that is written with every batch, and keeps no more than the last minutes' versions."""

    __slots__ = ()

    @classmethod
    def beside(cls, target: LakeTable, suffix: str) -> "OwnTable":
        """The table whose name is the target's with a suffix."""
        return cls(target.spark, f"{target.name[:-1]}{suffix}`", target.using)

    def set_properties(self, properties: Mapping[str, str]) -> None:
        super().set_properties(properties)
        self.shed_log()

    def shed_log(self) -> None:
        """Called after commits, keeps Delta's log short."""
        if self.using == "delta":
            shed_entries(self.spark, self.loaded())

    def remove_old_files(self) -> None:
        """Delete the files that only old versions need."""
        if self.using == "delta":
            self.spark.sql(f"VACUUM {self.name}")
        else:
            self.expire(datetime.now(UTC) - _KEPT)

    def old_metadata(self, given: Mapping[str, str]) -> dict[str, str]:
        if self.using == "iceberg":
            return super().old_metadata(given)
        return {name: value for name, value in _RETENTION.items() if name not in given}
