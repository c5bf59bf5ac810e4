"""Iceberg tables of the lake."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, IntegerType, ShortType

from pgrelay.errors import SetupError
from pgrelay.spark.lake.tables import INTERNAL_RETENTION, LakeTable
from pgrelay.spark.names import COMMIT_LSN, literal, quoted

_DEFAULTS: Final = {
    "write.merge.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    # Each batch is a commit, or two. Each writes all metadata to a new file; by default every one is kept.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}

_MARK: Final = "pgrelay"  # in the summary of a snapshot

# Iceberg's "write, audit, publish": with the property, a session that has one of the settings writes beside
# the table.
_WAP_ENABLED: Final = "write.wap.enabled"
_WAP_SETTINGS: Final = ("spark.wap.id", "spark.wap.branch")


class IcebergTable(LakeTable):
    """An Iceberg table. Its versions are snapshots, whose ids have no order."""

    __slots__ = ()

    using = "iceberg"
    taken = frozenset(
        (
            *("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id"),
            *("_last_updated_sequence_number", "__row_operation", "__row_id", "__row_from_source"),
            *("__row_from_target", "__original_row_id__file", "__original_row_id__pos"),
        )
    )
    _mark_setting = f"spark.sql.iceberg.snapshot-property.{_MARK}"

    def _has_no_files(self) -> bool:
        return self.load().table().currentSnapshot() is None

    def _prepare_namespace(self) -> None:
        if "`.`" in self.namespace:  # else it is only the catalog
            self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.namespace}")

    def drop(self) -> None:
        self.spark.sql(f"DROP TABLE {self.name} PURGE")

    @property
    def _defaults(self) -> Mapping[str, str]:
        return _DEFAULTS

    def refuse_staging(self) -> None:
        found = [name for name in _WAP_SETTINGS if self.spark.conf.get(name, None)]
        if found and self.properties().get(_WAP_ENABLED, "").lower() == "true":
            raise SetupError(
                f"{self.name}: the session has {found[0]} and the table {_WAP_ENABLED}, so that Iceberg "
                "would put the rows beside the table, where the next changes do not find them: unset one of "
                "the two"
            )

    def trim_log(self) -> None:
        """Nothing to do: the table's properties limit old metadata."""

    def _call(self, procedure: str, *arguments: str) -> str:
        """The statement that calls one of Iceberg's procedures, which are in the table's catalog."""
        catalog, _, name = self.name.partition("`.`")
        given = ", ".join([f"table => {literal(f'`{name}')}", *arguments])
        return f"CALL {catalog}`.system.{procedure}({given})"

    def compact(self) -> None:
        files = "options => map('delete-file-threshold', '1', 'min-input-files', '2')"
        self.spark.sql(self._call("rewrite_data_files", files))
        self.spark.sql(self._call("rewrite_position_delete_files"))
        self.spark.sql(self._call("rewrite_manifests"))

    def refuse_purge(self, older_than: timedelta) -> None:
        """Never: Iceberg has no minimum."""

    def purge(self, older_than: timedelta) -> None:
        until = datetime.now(UTC) - older_than
        self.spark.sql(self._call("expire_snapshots", f"older_than => TIMESTAMP '{until.isoformat(' ')}'"))

    def remove_old_files(self) -> None:
        self.purge(INTERNAL_RETENTION)

    def version(self) -> int:
        snapshot = self.load().table().currentSnapshot()
        return 0 if snapshot is None else int(snapshot.snapshotId())

    def restore_statement(self, version: int) -> str:
        return self._call("set_current_snapshot", f"snapshot_id => {version}")

    def marks(self, since: int | None = None) -> tuple[list[str], bool]:
        at = self.version()  # before the snapshots are read: more may come at any moment
        snapshots = self.spark.table(f"{self.name}.snapshots")
        rows = snapshots.selectExpr("snapshot_id", "parent_id", f"summary['{_MARK}']").collect()
        known = {snapshot: (parent, mark) for snapshot, parent, mark in rows}
        found = []
        while at != since and at in known:
            parent, mark = known[at]
            found.append(mark)
            at = parent or 0
        return [mark for mark in found if mark is not None], at in (0, since)

    def was_reverted(self, since: int) -> bool:
        """Whether the snapshot `since` is no ancestor of the current one."""
        jvm: Any = self.spark._jvm
        iceberg: Any = self.load().table()
        was = iceberg.snapshot(since)
        if iceberg.currentSnapshot() is None:
            return since != 0
        snapshots = jvm.org.apache.iceberg.util.SnapshotUtil
        if was is None or snapshots.isAncestorOf(iceberg, since):
            return False
        # Snapshots can be expired by id, so the known ancestors of the current one may not go as far back.
        oldest = snapshots.oldestAncestor(iceberg)
        return oldest.parentId() is None or bool(oldest.timestampMillis() <= was.timestampMillis())

    def stored_type(self, kind: DataType) -> str:
        if isinstance(kind, ArrayType):
            return f"array<{self.stored_type(kind.elementType)}>"
        # Iceberg has no smallint.
        return super().stored_type(IntegerType() if isinstance(kind, ShortType) else kind)

    def layout_role(self, column: str) -> Literal["partitioned", "ordered"] | None:
        table = self.load().table()
        field = table.schema().asStruct().field(column).fieldId()  # `findField` takes a path
        specs = table.specs().values()
        if any(part.sourceId() == field for spec in specs for part in spec.fields()):
            return "partitioned"
        return "ordered" if any(part.sourceId() == field for part in table.sortOrder().fields()) else None

    def insert_if_absent(
        self, rows: DataFrame, key: Sequence[str], *, min_lsn: int | None = None, delete_clause: str = ""
    ) -> None:
        if delete_clause:
            super().insert_if_absent(rows, key, min_lsn=min_lsn, delete_clause=delete_clause)
            return
        # Iceberg turns such a MERGE into a plain append. It checks an overwrite, even of no rows, for
        # conflicts with the commits since a version.
        seen = self.version()
        present = self.rows() if min_lsn is None else self.rows().where(f"{COMMIT_LSN} >= {min_lsn}")
        present = present.select(*map(quoted, key))
        writer = rows.join(present, list(key), "left_anti").writeTo(self.name)
        if seen:
            writer = writer.option("validate-from-snapshot-id", str(seen))
        writer.option("isolation-level", "serializable").overwrite(F.lit(False))

    def merge_source(self, rows: DataFrame) -> DataFrame:
        # Spark 4.1 has no plan for such a source where it looks for the files to copy.
        copies = "copy-on-write"  # Iceberg's default
        if self.properties().get("write.merge.mode", copies).lower() == copies:
            return rows.localCheckpoint()
        return rows
