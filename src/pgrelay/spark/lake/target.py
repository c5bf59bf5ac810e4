"""A table of the lake that is kept equal to one of Postgres, batch by batch."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType

from pgrelay.errors import SetupError
from pgrelay.spark.lake.batch import Batch, summarize
from pgrelay.spark.lake.batch_checks import (
    OnMissing,
    refuse_corrupt,
    refuse_doubt,
    refuse_foreign_records,
    without_rejects,
)
from pgrelay.spark.lake.evolution import evolve, matching_position, require_columns
from pgrelay.spark.lake.latest import DELETED, keyed_rows, latest_rows
from pgrelay.spark.lake.lost_values import missing_row_reason, refuse_lost_values
from pgrelay.spark.lake.merge import (
    MissingRow,
    append_rows,
    delete_older,
    merge_rows,
    missing_rows,
    refuse_missing,
)
from pgrelay.spark.lake.positions import Positions, drop_call
from pgrelay.spark.lake.rejects import RECORD_COLUMNS, set_aside
from pgrelay.spark.lake.tables import LakeTable
from pgrelay.spark.lake.unkeyed import append_once, apply_multiset, missing_records
from pgrelay.spark.names import COMMIT_LSN, END_LSN, SEQ, quoted, row_column
from pgrelay.spark.records.order import after
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import UNKNOWN_POSITION, Position, TableSchema


class Target:
    """A target and its positions; one writer at a time."""

    is_history = False  # a history keeps dropped columns, and changes from before a truncate

    def __init__(
        self,
        table: LakeTable,
        schema: TableSchema,
        *,
        on_missing: OnMissing = "fail",
        rejects: LakeTable | None = None,
    ) -> None:
        """Raises as `Positions.read` does, and SetupError if the target is a history and this is a mirror, or
        the reverse."""
        self.table = table
        self.positions = Positions.read(table, schema)
        if self.positions.has_target:
            self._refuse_other_kind(schema)
        self.on_missing = on_missing
        self.rejects = rejects
        self._checked_columns: tuple[Column, ...] = ()  # those that the target is known to have

    def version_position(self, schema: TableSchema) -> Position:
        """The position of the schema version that the target has, or will be created with."""
        known = self.positions.schema_position
        if known == UNKNOWN_POSITION:
            return matching_position(self.table, schema, self.is_history)
        return known or schema.versions[0].position

    def apply(self, changes: DataFrame, schema: TableSchema) -> None:
        """Apply those of the changes that are new, and record their positions."""
        # Persist before the filter: Spark would push its condition into the parse, and so parse twice.
        persisted = changes.select("*").persist()
        try:
            new = persisted.where(self.positions.applied.is_new(include_truncated=self.is_history))
            batch = summarize(new, schema)
            refuse_foreign_records(batch, self.rejects)  # before the target is altered
            self._prepare(schema, has_changes=batch.has_changes)
            refuse_corrupt(batch, self.rejects)
            if batch.has_changes:
                refuse_doubt(batch)
                # As late as possible, since checking a large batch takes a while.
                self.positions.refuse_other_writer()
                self.write(without_rejects(batch, self.rejects, self.on_missing))
        finally:
            persisted.unpersist()
        self.positions.write(batch.applied_after)

    def _prepare(self, schema: TableSchema, *, has_changes: bool) -> None:
        """Make the table what the schema says; if the batch has no changes, it may be between versions."""
        schema.refuse_clash()
        since = self.positions.schema_position
        if since is None:
            self.positions.create_target(self.table_type(schema), schema)
        elif schema.latest.position > since:
            self.positions.refuse_other_writer()
            self._evolve(schema)
            self.positions.note_schema(schema)
        elif not has_changes:
            # The mirror was killed while it changed the table to the next version: this one has nothing new.
            return
        elif self._checked_columns != schema.columns:
            require_columns(self.table, schema)
        if not self._checked_columns:
            self.table.refuse_staging()
        self.positions.note_cluster()
        self._checked_columns = schema.columns

    def _refuse_other_kind(self, schema: TableSchema) -> None:
        if END_LSN in schema.known_names():
            return  # it shows nothing, and a history refuses a column of that name
        if (END_LSN in self.table.rows().columns) != self.is_history:
            one, other = ("mirror", "history") if self.is_history else ("history", "mirror")
            raise SetupError(
                f"{self.table.name} is the target of a {one}, not of a {other}: name another, or drop it "
                f"with {drop_call(self.table)}"
            )

    def _evolve(self, schema: TableSchema) -> None:
        try:
            evolve(
                self.table,
                schema,
                self.version_position(schema),
                live=self.live_rows,
                keep_dropped=self.is_history,
            )
        except SetupError:
            if not self.table.is_empty():
                raise
            # Without rows, no value can be lost.
            self.positions.replace_target(self.table_type(schema), schema)

    def live_rows(self) -> DataFrame:
        """The rows that changes are merged into."""
        return self.table.rows()

    def table_type(self, schema: TableSchema) -> StructType:
        """The columns of a new target."""
        return schema.row_type.add(COMMIT_LSN, LongType()).add(SEQ, LongType())

    def write(self, batch: Batch) -> None:
        """Write a batch, of which all changes are new and can be applied exactly."""
        schema = batch.schema
        if batch.truncated is not None:
            if batch.ends_with_truncate:
                delete_older(self.table, batch.truncated)
                return
            # Later changes go into the commit that empties the table: all may be one transaction.
            batch = batch.where(after(batch.truncated))
        batch = batch.where(F.col("op") != "t")
        if schema.key:
            self._write_by_key(batch)
        elif schema.latest.replica_identity == "full" or (batch.has_updates_or_deletes and schema.was_full):
            with self.positions.announcing(batch.applied_after):
                self._write_whole_rows(batch)
        else:
            append_once(self.table, batch)

    def _write_whole_rows(self, batch: Batch) -> None:
        strict = self.on_missing == "fail"
        try:
            apply_multiset(self.table, batch, strict=strict)
        except MissingRow:
            if self.rejects is None:
                raise
            set_aside(self.rejects, missing_records(self.table, batch))
            apply_multiset(self.table, batch, strict=False)

    def _write_by_key(self, batch: Batch) -> None:
        strict = self.on_missing == "fail"
        if batch.has_lost_values and strict:
            refuse_lost_values(batch)
        rows = latest_rows(batch)
        first = not self.positions.applied.by_partition and not batch.has_unchanged
        if first and self.table.is_empty():
            append_rows(self.table, rows, batch.schema)
            return
        try:
            merge_rows(self.table, rows, batch, strict=strict)
        except MissingRow:
            merge_rows(self.table, self._without_missing(rows, batch), batch, strict=True)

    def _without_missing(self, rows: DataFrame, batch: Batch) -> DataFrame:
        """The rows except those that lack a value, which are refused, or set aside in `rejects`."""
        missing = missing_rows(self.table, rows, batch)
        if self.rejects is None:
            refuse_missing(self.table, missing, batch.schema)
            return rows
        keys = [row_column(name) for name in batch.schema.key]
        missing = missing.select(*map(quoted, keys))
        of_keys = keyed_rows(batch, more=RECORD_COLUMNS).where(~F.col(DELETED))
        records = of_keys.join(missing, keys, "left_semi")
        set_aside(self.rejects, records.withColumn("corrupt", missing_row_reason()))
        return self.table.merge_source(rows.join(missing, keys, "left_anti"))
