"""Applies a batch of changes to a Delta or Iceberg table, for queries of the user's own."""

from dataclasses import replace

from pyspark.sql import DataFrame

from pgrelay.errors import SetupError
from pgrelay.spark.failures import wrap_java_errors
from pgrelay.spark.lake.batch_checks import OnMissing, refuse_invalid_on_missing
from pgrelay.spark.lake.cancellation import cancelled_on_stop
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.lake.target import Target
from pgrelay.spark.schemas.schema import TableSchema, require_schema


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
    refuse_invalid_on_missing(on_missing)
    require_schema(schema)
    schema.refuse_sharing()
    _refuse_different_schema(batch, schema)
    table = lake_table(batch.sparkSession, target, using)
    rejects = lake_table(batch.sparkSession, corrupt_to, using) if corrupt_to else None
    if rejects is not None and rejects.canonical_name() == table.canonical_name():
        raise SetupError(f"corrupt_to={corrupt_to} is the target itself: name another table")
    schema = replace(schema, taken=table.taken)
    with cancelled_on_stop(batch.sparkSession), wrap_java_errors(f"{schema.topic} to {target}"):
        Target(table, schema, on_missing=on_missing, rejects=rejects).apply(batch, schema)


def _refuse_different_schema(batch: DataFrame, schema: TableSchema) -> None:
    """Raise SetupError if the changes have columns other than the schema's, which would be left out."""
    if batch.isStreaming:
        raise SetupError(f"{schema.topic}: the batch is a stream: call apply_changes in its foreachBatch")
    rows = batch.schema["after"].dataType.simpleString() if "after" in batch.columns else "not there"
    if rows != schema.row_type.simpleString():
        raise SetupError(
            f"{schema.topic}: the batch was not read with this schema: its column `after` is {rows:.200}; "
            "give read_changes and apply_changes the same schema"
        )
