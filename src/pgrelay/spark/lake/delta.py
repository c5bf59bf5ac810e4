"""Delta tables of the lake."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final, Literal

from pgrelay.errors import SetupError
from pgrelay.spark.lake.delta_commits import any_reverts, commits
from pgrelay.spark.lake.delta_folders import remove_folder, remove_unfinished
from pgrelay.spark.lake.delta_log import trim_log
from pgrelay.spark.lake.tables import INTERNAL_RETENTION, LakeTable
from pgrelay.spark.names import quoted

# Delta's own minimum: a reader or a writer may be at an old version.
MIN_RETENTION: Final = timedelta(days=7)

# Delta treats the two as one choice: the log's may not be shorter. A session may have its own defaults.
_RETENTIONS: Final = ("deletedFileRetentionDuration", "logRetentionDuration")
_SESSION_DEFAULTS: Final = "spark.databricks.delta.properties.defaults"

_FEATURES: Final = {
    # Columns can be renamed, dropped and have any name; their types can widen.
    "delta.columnMapping.mode": "name",
    "delta.enableTypeWidening": "true",
    "delta.feature.timestampNtz": "supported",
    # A change marks a row as deleted instead of rewriting its whole file.
    "delta.enableDeletionVectors": "true",
}

_RETENTION_CHECK: Final = "spark.databricks.delta.retentionDurationCheck.enabled"


class DeltaTable(LakeTable):
    """A Delta table. Its versions are numbers from 0, one for each commit."""

    __slots__ = ()

    using = "delta"
    taken = frozenset(
        (
            *("_metadata", "_row_dropped_", "_source_row_present_", "_tmp_metadata_row_index"),
            *("__delta_internal_is_row_deleted", "deletionvectorid"),
        )
    )
    _mark_setting = "spark.databricks.delta.commitInfo.userMetadata"

    def canonical_name(self) -> str:
        name = super().canonical_name()
        return name if "`.`" in name else f"{quoted(self.spark.catalog.currentDatabase())}.{name}"

    def _has_no_files(self) -> bool:
        checksum = self.load().initialSnapshot().checksumOpt()
        return bool(checksum.isDefined() and checksum.get().numFiles() == 0)

    def _prepare_namespace(self) -> None:
        if self.namespace:
            self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.namespace}")
        remove_unfinished(self.spark, self.name)

    def drop(self) -> None:
        row = self.spark.sql(f"DESCRIBE DETAIL {self.name}").select("location").first()
        self.spark.sql(f"DROP TABLE {self.name}")
        if row is not None:
            remove_folder(self.spark, row["location"])

    def set_properties(self, properties: Mapping[str, str]) -> None:
        super().set_properties(properties)
        if self.is_internal:
            self.trim_log()

    @property
    def _defaults(self) -> Mapping[str, str]:
        if self.is_internal:
            # Delta keeps the entries of its log at least as long as deleted files.
            kept = f"interval {INTERNAL_RETENTION // timedelta(minutes=1)} minutes"
            return {**_FEATURES, **{f"delta.{name}": kept for name in _RETENTIONS}}
        if any(self.spark.conf.get(f"{_SESSION_DEFAULTS}.{name}", None) for name in _RETENTIONS):
            return _FEATURES
        # By default 30 days. Each batch is a commit, or two, and Delta lists all their entries several times.
        return {**_FEATURES, "delta.logRetentionDuration": "interval 7 days"}

    def refuse_staging(self) -> None:
        """Never: Delta has no such thing."""

    def trim_log(self) -> None:
        trim_log(self.spark, self.load())

    def compact(self) -> None:
        self.spark.sql(f"OPTIMIZE {self.name}")
        self.spark.sql(f"REORG TABLE {self.name} APPLY (PURGE)")

    def refuse_purge(self, older_than: timedelta) -> None:
        if older_than < MIN_RETENTION and self.spark.conf.get(_RETENTION_CHECK, "true") != "false":
            raise SetupError(
                f"older_than={older_than}: a reader of an old version could lose its files; take 7 days or "
                f"more, or set {_RETENTION_CHECK} to false"
            )

    def purge(self, older_than: timedelta) -> None:
        self.spark.sql(f"VACUUM {self.name} RETAIN {older_than / timedelta(hours=1)} HOURS")

    def remove_old_files(self) -> None:
        self.spark.sql(f"VACUUM {self.name}")  # by the table's own retention

    def version(self) -> int:
        return int(self.load().initialSnapshot().version())

    def restore_statement(self, version: int) -> str:
        return f"RESTORE TABLE {self.name} TO VERSION AS OF {version}"

    def marks(self, since: int | None = None) -> tuple[list[str], bool]:
        found = commits(self, since)
        whole = since is None or not found or found[-1].version == since + 1
        return [commit.mark for commit in found if commit.mark is not None], whole

    def was_reverted(self, since: int) -> bool:
        return self.version() < since or any_reverts(commits(self, since), since)

    def layout_role(self, column: str) -> Literal["partitioned", "ordered"] | None:
        return None  # Delta refuses to drop such a column
