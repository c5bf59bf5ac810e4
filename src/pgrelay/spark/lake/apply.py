"""Applying a batch of changes to a Delta or Iceberg table."""

from dataclasses import replace
from typing import Literal, get_args

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType

from pgrelay.errors import RecordError, SetupError
from pgrelay.lsn import format_lsn
from pgrelay.spark.failures import told_of
from pgrelay.spark.lake.cut_off import ended_by_a_stop
from pgrelay.spark.lake.evolution import CURE, as_of, demand, evolve
from pgrelay.spark.lake.latest import (
    DELETED,
    key_moved,
    key_untold,
    keyed_rows,
    latest_rows,
    old_keys_deleted,
)
from pgrelay.spark.lake.lost_values import (
    orphaned,
    refuse_lost,
    why_lacking,
    why_missing,
    why_untold,
    with_nulls,
)
from pgrelay.spark.lake.merge import (
    MissingRow,
    append_rows,
    delete_older,
    merge_rows,
    missing_rows,
    refuse_missing,
)
from pgrelay.spark.lake.named import lake_table
from pgrelay.spark.lake.positions import Positions, drop_call
from pgrelay.spark.lake.rejects import PLACE, set_aside
from pgrelay.spark.lake.summary import Summary, summarize
from pgrelay.spark.lake.tables import LakeTable, Using
from pgrelay.spark.lake.unkeyed import append_once, apply_multiset, missing_records
from pgrelay.spark.names import COMMIT_LSN, END_LSN, SEQ, carried, quoted
from pgrelay.spark.records.change_columns import INEXACT, INEXACT_DOCUMENT, OUTDATED
from pgrelay.spark.records.order import after, before
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import UNTOLD, Position, TableSchema, require_schema

OnMissing = Literal["fail", "null"]


def apply_changes(
    batch: DataFrame,
    target: str,
    *,
    schema: TableSchema,
    using: Using = "delta",
    on_missing: OnMissing = "fail",
    corrupt_to: str | None = None,
) -> None:
    """Bring a table up to date with a batch of `read_changes`: in your own `foreachBatch`, or by itself.

    The target has the table's live rows: its columns under their names, and `__commit_lsn` and `__seq` of
    each row's last change. It is created if it is missing. The last change by `(commit_lsn, seq)` wins, so
    batches may be repeated. How far each partition is applied is kept in `<target>__positions`. Older changes
    of a partition are skipped, so batches must come in the topic's order. A table without a key is appended
    to; under REPLICA IDENTITY FULL its rows are matched by all columns. `schema` is the one that the batch
    was read with.

    on_missing  what happens if the target lacks the row of an update that leaves out an unchanged large
                value, or, if rows are matched by all columns, the row of any update or delete: "fail"; or
                "null", which writes null, and deletes nothing
    corrupt_to  a table for records that can't be read exactly, and for those that find no row as above; by
                default they fail the batch. Of an update of a whole row the new row is still written

    Raises RecordError naming the record, SetupError if the schema can't be followed, and GapError if the
    target holds rows of another Postgres cluster. A failure of Delta or Iceberg is raised as a PgrelayError.
    """
    if not isinstance(batch, DataFrame):
        raise SetupError(f"batch={batch!r}: give a DataFrame of read_changes")
    refuse_other_choice(on_missing)
    require_schema(schema)
    schema.refuse_sharing()
    _refuse_other_schema(batch, schema)
    table = lake_table(batch.sparkSession, target, using)
    rejects = lake_table(batch.sparkSession, corrupt_to, using) if corrupt_to else None
    if rejects is not None and rejects.plain_name() == table.plain_name():
        raise SetupError(f"corrupt_to={corrupt_to} is the target itself: name another table")
    schema = replace(schema, taken=table.taken)
    with ended_by_a_stop(batch.sparkSession), told_of(f"{schema.topic} to {target}"):
        Target(table, schema, on_missing=on_missing, rejects=rejects).apply(batch, schema)


def refuse_other_choice(on_missing: str) -> None:
    """Raise SetupError on an unknown choice: it would act as null, and lose values silently."""
    if on_missing not in get_args(OnMissing):
        raise SetupError(f"on_missing={on_missing!r}: write fail or null")


def _refuse_other_schema(batch: DataFrame, schema: TableSchema) -> None:
    """Raise SetupError if the changes have other columns than the schema: they would be left out."""
    if batch.isStreaming:
        raise SetupError(f"{schema.topic}: the batch is a stream: call apply_changes in its foreachBatch")
    rows = batch.schema["after"].dataType.simpleString() if "after" in batch.columns else "not there"
    if rows != schema.row_type.simpleString():
        raise SetupError(
            f"{schema.topic}: the batch was not read with this schema: its column `after` is {rows:.200}; "
            "give read_changes and apply_changes the same schema"
        )


class Target:
    """A target and its positions; one writer at a time."""

    is_history = False  # which keeps dropped columns, and changes from before a truncate

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
        self._demanded: tuple[Column, ...] = ()  # the columns that the target was found to have

    def since(self, schema: TableSchema) -> Position:
        """The position of the version that the target has, or will be created by; later versions follow."""
        told = self.positions.schema_position
        if told == UNTOLD:
            return as_of(self.table, schema, self.is_history)
        return told or schema.versions[0].position

    def apply(self, batch: DataFrame, schema: TableSchema) -> None:
        """Apply a batch, and remember its positions."""
        # Persist before the filter: Spark would push its condition into the parse, and so parse twice.
        kept = batch.select("*").persist()
        changes = kept.where(self.positions.applied.is_new(truncated=self.is_history))
        try:
            summary = summarize(changes, schema)
            self._refuse_strangers(summary, schema)
            writes = bool(summary.leads_to.by_partition)
            self._prepare(schema, writes=writes)
            self._refuse_corrupt(changes, summary, schema)
            if writes:
                self._refuse_doubt(changes, schema)
                # As late as possible, since checking a large batch takes a while.
                self.positions.refuse_other_writer()
                self.write(self._sound(changes, summary, schema), summary, schema)
        finally:
            kept.unpersist()
        self.positions.write(summary.leads_to)

    def _prepare(self, schema: TableSchema, *, writes: bool) -> None:
        """Make the table what the schema says. Unless the batch `writes`, it may be between two versions."""
        schema.refuse_clash()
        since = self.positions.schema_position
        if since is None:
            self.positions.create_target(self.table_type(schema), schema)
        elif schema.latest.position > since:
            self.positions.refuse_other_writer()
            self._follow(schema)
            self.positions.note_schema(schema)
        elif not writes:
            # The mirror was killed while the table followed the next version: nothing is new of this one.
            return
        elif self._demanded != schema.columns:
            demand(self.table, schema)
        if not self._demanded:
            self.table.refuse_staging()
        self.positions.note_cluster()
        self._demanded = schema.columns

    def _refuse_other_kind(self, schema: TableSchema) -> None:
        if END_LSN in schema.known_names():
            return  # it tells nothing, and a history refuses it by its name
        if (END_LSN in self.table.rows().columns) != self.is_history:
            one, other = ("mirror", "history") if self.is_history else ("history", "mirror")
            raise SetupError(
                f"{self.table.name} is the target of a {one}, not of a {other}: name another, or drop it "
                f"with {drop_call(self.table)}"
            )

    def _follow(self, schema: TableSchema) -> None:
        try:
            evolve(self.table, schema, self.since(schema), live=self.live_rows, keep_dropped=self.is_history)
        except SetupError:
            if not self.table.is_empty():
                raise
            # Without rows, no value can be lost.
            self.positions.replace_target(self.table_type(schema), schema)

    def live_rows(self) -> DataFrame:
        """The rows that changes are merged into."""
        return self.table.rows()

    def _refuse_doubt(self, changes: DataFrame, schema: TableSchema) -> None:
        """Raise SetupError if a change is older than a version that can't be followed."""
        for position, doubt in schema.doubts()[-1:]:
            older = changes.where(before(position)).select("partition", "offset").first()
            if older is not None:
                raise SetupError(
                    f"{schema.topic} partition {older['partition']} offset {older['offset']} is from before "
                    f"LSN {format_lsn(position[0])}; from that LSN on, {doubt}; {CURE}"
                )

    def _refuse_strangers(self, summary: Summary, schema: TableSchema) -> None:
        """Refuse records of another topic, or without the schema's key, before the target is altered."""
        if summary.foreign is not None:
            raise SetupError(
                f"the batch has records of {summary.foreign}, but the schema is {schema.topic}'s: give the "
                "schema of the topic that the batch was read from"
            )
        if summary.untold is not None and self.rejects is None:
            partition, offset, op = summary.untold
            raise RecordError(
                f"{schema.topic} partition {partition} offset {offset}, op {op!r}: {why_untold(schema)}; or "
                "send such records to a table (corrupt_to)"
            )

    def _refuse_corrupt(self, changes: DataFrame, summary: Summary, schema: TableSchema) -> None:
        """Refuse records that can't be read exactly; with `rejects`, set them aside there."""
        if summary.corrupt is None:
            return
        if self.rejects is not None:
            set_aside(self.rejects, changes.where(F.col("corrupt").isNotNull()))
            return
        partition, offset, reason = summary.corrupt
        reason = " ".join(reason.splitlines())  # it quotes the record, and the cure follows
        raise RecordError(
            f"{schema.topic} partition {partition} offset {offset}: {reason:.500}; "
            f"{_better_cure(reason)}send such records to a table (corrupt_to)"
        )

    def _sound(self, changes: DataFrame, summary: Summary, schema: TableSchema) -> DataFrame:
        """The changes without those that can't be applied exactly; these go to `rejects`, if there is one."""
        sound = changes.where(F.col("corrupt").isNull())
        if summary.untold is not None and self.rejects is not None:
            marked = sound.withColumn("untold", key_untold(schema))
            because = F.lit(why_untold(schema))
            set_aside(self.rejects, marked.where("untold").withColumn("corrupt", because))
            sound = marked.where("NOT untold").drop("untold")
        if not summary.lacking:
            return sound
        if self.rejects is not None and self.on_missing == "fail":
            marked = sound.withColumn("lacking", orphaned(schema))
            set_aside(self.rejects, marked.where("lacking").withColumn("corrupt", why_lacking()))
            sound = marked.where("NOT lacking")
            if summary.moved:
                # The rows under their old keys are deleted all the same.
                moves = marked.where(F.col("lacking") & key_moved(schema))
                sound = sound.unionByName(old_keys_deleted(moves, schema))
            sound = sound.drop("lacking")
        return with_nulls(sound, schema)

    def table_type(self, schema: TableSchema) -> StructType:
        """The columns of a new target."""
        return schema.row_type.add(COMMIT_LSN, LongType()).add(SEQ, LongType())

    def write(self, changes: DataFrame, summary: Summary, schema: TableSchema) -> None:
        """Write a batch's new and sound changes."""
        truncated = summary.leads_to.truncated
        if truncated is not None:
            changes = changes.where(after(truncated))
            if max(summary.leads_to.by_partition.values()) == truncated:
                delete_older(self.table, truncated)
                return
            # Later changes go into the commit that empties the table: all may be one transaction.
        changes = changes.where(F.col("op") != "t")
        if schema.key:
            self._write_by_key(changes, summary, schema)
        elif schema.latest.replica_identity == "full" or (summary.replaced and schema.was_full):
            with self.positions.announced(summary.leads_to):
                self._write_whole_rows(changes, schema, truncated)
        else:
            append_once(self.table, changes, schema, since=summary.lowest, truncated=truncated)

    def _write_whole_rows(self, changes: DataFrame, schema: TableSchema, truncated: Position | None) -> None:
        strict = self.on_missing == "fail"
        try:
            apply_multiset(self.table, changes, schema, strict=strict, truncated=truncated)
        except MissingRow:
            if self.rejects is None:
                raise
            set_aside(self.rejects, missing_records(self.table, changes, schema, truncated))
            apply_multiset(self.table, changes, schema, strict=False, truncated=truncated)

    def _write_by_key(self, changes: DataFrame, summary: Summary, schema: TableSchema) -> None:
        if summary.lacking and self.on_missing == "fail":
            refuse_lost(changes, schema, moved=summary.moved)
        rows = latest_rows(changes, schema, unchanged=summary.unchanged, moved=summary.moved)
        first = not self.positions.applied.by_partition and not summary.unchanged
        if first and self.table.is_empty():
            append_rows(self.table, rows, schema)
            return
        strict = summary.unchanged and self.on_missing == "fail"
        truncated = summary.leads_to.truncated
        try:
            merge_rows(
                self.table, rows, schema, missing=summary.unchanged, strict=strict, truncated=truncated
            )
        except MissingRow:
            rows = self._without_missing(rows, changes, summary, schema)
            merge_rows(self.table, rows, schema, missing=True, strict=True, truncated=truncated)

    def _without_missing(
        self, rows: DataFrame, changes: DataFrame, summary: Summary, schema: TableSchema
    ) -> DataFrame:
        """The rows except those that lack a value, which are refused, or set aside in `rejects`."""
        missing = missing_rows(self.table, rows, schema, summary.leads_to.truncated)
        if self.rejects is None:
            refuse_missing(self.table, missing, schema)
            return rows
        keys = [carried(name) for name in schema.key]
        of_keys = keyed_rows(changes, schema, moved=summary.moved, more=PLACE).where(~F.col(DELETED))
        records = of_keys.join(missing.select(*map(quoted, keys)), keys, "left_semi")
        set_aside(self.rejects, records.withColumn("corrupt", why_missing()))
        return self.table.source(rows.join(missing.select(*map(quoted, keys)), keys, "left_anti"))


def _better_cure(reason: str) -> str:
    """What to try with a record that can't be read, before it is set aside for good."""
    if INEXACT_DOCUMENT in reason:
        return "set records.json: string in the relay for later ones, or "
    if f"{INEXACT}string" in reason:
        # It is text already; what JSON has as a number, Spark can't read exactly.
        return (
            "if the column was changed, read table_schemas again and restart the stream; for a number of "
            "more than 38 digits, set records.numeric: string in a relay that writes JSON, UPDATE its row, "
            "and "
        )
    if INEXACT in reason:
        return (
            "if the column was changed, read table_schemas again and restart the stream; otherwise read it "
            "as text (TableSchema.as_text) into a re-created target, or "
        )
    if any(told in reason for told in OUTDATED):
        return "if the columns were changed, read table_schemas again and restart the stream, or "
    return ""
