"""Checks which changes of a batch can be applied exactly; the others fail it, or are set aside in a table."""

from typing import Literal, get_args

from pyspark.sql import functions as F

from pgrelay.errors import RecordError, SetupError
from pgrelay.lsn import format_lsn
from pgrelay.spark.lake.batch import Batch, is_key_update, lacks_key
from pgrelay.spark.lake.evolution import REFILL_CURE
from pgrelay.spark.lake.latest import old_key_deletes
from pgrelay.spark.lake.lost_values import lost_value_reason, missing_key_reason, orphaned, with_nulls
from pgrelay.spark.lake.rejects import set_aside
from pgrelay.spark.lake.tables import LakeTable
from pgrelay.spark.records.change_columns import INEXACT, INEXACT_DOCUMENT, OUTDATED
from pgrelay.spark.records.order import before

OnMissing = Literal["fail", "null"]


def refuse_invalid_on_missing(on_missing: str) -> None:
    """Raise SetupError on an unknown choice: it would act as "null", and lose values silently."""
    if on_missing not in get_args(OnMissing):
        raise SetupError(f"on_missing={on_missing!r}: write fail or null")


def refuse_foreign_records(batch: Batch, rejects: LakeTable | None) -> None:
    """Raise SetupError on records of another topic, and unless there is `rejects`, RecordError on records
    that lack the schema's key."""
    topic = batch.schema.topic
    if batch.foreign_topic is not None:
        raise SetupError(
            f"the batch has records of {batch.foreign_topic}, but the schema is {topic}'s: give the "
            "schema of the topic that the batch was read from"
        )
    if batch.first_without_key is not None and rejects is None:
        partition, offset, op = batch.first_without_key
        raise RecordError(
            f"{topic} partition {partition} offset {offset}, op {op!r}: {missing_key_reason(batch.schema)}; "
            "or send such records to a table (corrupt_to)"
        )


def refuse_doubt(batch: Batch) -> None:
    """Raise SetupError if a change is older than a version that can't be followed."""
    topic = batch.schema.topic
    for position, doubt in batch.schema.doubts()[-1:]:
        older = batch.changes.where(before(position)).select("partition", "offset").first()
        if older is not None:
            raise SetupError(
                f"{topic} partition {older['partition']} offset {older['offset']} is from before "
                f"LSN {format_lsn(position[0])}; from that LSN on, {doubt}; {REFILL_CURE}"
            )


def refuse_corrupt(batch: Batch, rejects: LakeTable | None) -> None:
    """Raise RecordError on records that can't be read exactly; with `rejects`, set them aside there."""
    if batch.first_corrupt is None:
        return
    if rejects is not None:
        set_aside(rejects, batch.changes.where(F.col("corrupt").isNotNull()))
        return
    partition, offset, reason = batch.first_corrupt
    reason = " ".join(reason.splitlines())  # it quotes the record, and the cure follows
    raise RecordError(
        f"{batch.schema.topic} partition {partition} offset {offset}: {reason:.500}; "
        f"{_better_cure(reason)}send such records to a table (corrupt_to)"
    )


def without_rejects(batch: Batch, rejects: LakeTable | None, on_missing: OnMissing) -> Batch:
    """The batch without the changes that can't be applied exactly, which go to `rejects`, if there is one.

    If a change has lost a value, all changes have the column `lost` of `with_nulls`.
    """
    schema = batch.schema
    batch = batch.where(F.col("corrupt").isNull())
    if batch.first_without_key is not None and rejects is not None:
        marked = batch.changes.withColumn("lacks_key", lacks_key(schema))
        set_aside(rejects, marked.where("lacks_key").withColumn("corrupt", F.lit(missing_key_reason(schema))))
        batch = batch.with_changes(marked.where("NOT lacks_key").drop("lacks_key"))
    if not batch.has_lost_values:
        return batch
    if rejects is not None and on_missing == "fail":
        marked = batch.changes.withColumn("orphaned", orphaned(schema))
        set_aside(rejects, marked.where("orphaned").withColumn("corrupt", lost_value_reason()))
        kept = marked.where("NOT orphaned")
        if batch.has_key_updates:
            # The rows under their old keys are still deleted.
            moves = marked.where(F.col("orphaned") & is_key_update(schema))
            kept = kept.unionByName(old_key_deletes(moves, schema))
        batch = batch.with_changes(kept.drop("orphaned"))
    return with_nulls(batch)


def _better_cure(reason: str) -> str:
    """What to try with a record that can't be read, rather than set it aside for good."""
    if INEXACT_DOCUMENT in reason:
        return "set records.json: string in the relay for later ones, or "
    if f"{INEXACT}string" in reason:
        # The column is text already, but Spark can't read a number in JSON exactly.
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
    if any(text in reason for text in OUTDATED):
        return "if the columns were changed, read table_schemas again and restart the stream, or "
    return ""
