"""History: every version of every row, as a slowly changing dimension of type 2.

A version holds from its own change to the next change of its key; the one that still holds has no end.
Dropped columns stay, for the versions that had them. If a later column takes the name, the old one is
renamed to `name__before_0_1B95D80`, after the LSN of that change.

What is repeated for each column is SQL: a `Column` takes dozens of calls into Java.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType, TimestampType

from pgrelay.errors import RecordError, SetupError
from pgrelay.lsn import format_lsn
from pgrelay.spark.lake.batch import Batch
from pgrelay.spark.lake.latest import DELETED, keyed_rows, unless_unchanged
from pgrelay.spark.lake.lost_values import missing_row_reason, refuse_lost_values
from pgrelay.spark.lake.rejects import RECORD_COLUMNS, set_aside
from pgrelay.spark.lake.target import Target
from pgrelay.spark.names import (
    COMMIT_LSN,
    END_LSN,
    SEQ,
    as_row_columns,
    columns_and_values,
    key_json,
    quoted,
    row_column,
)
from pgrelay.spark.records.order import after, before, older
from pgrelay.spark.schemas.schema import Position, TableSchema

VALID_FROM: Final = "__valid_from"
VALID_TO: Final = "__valid_to"
END_SEQ: Final = "__end_seq"

_ENDS: Final = (VALID_TO, END_LSN, END_SEQ)


class HistoryTarget(Target):
    """A target with every version of each row. Its table must have a key."""

    is_history = True

    def table_type(self, schema: TableSchema) -> StructType:
        columns = super().table_type(schema).add(VALID_FROM, TimestampType()).add(VALID_TO, TimestampType())
        return columns.add(END_LSN, LongType()).add(END_SEQ, LongType())

    def live_rows(self) -> DataFrame:
        return self.table.rows().where(f"{END_LSN} IS NULL")

    def _prepare(self, schema: TableSchema, *, has_changes: bool) -> None:
        # Before the table is created: a mirror could not use it.
        if has_changes and not schema.key:
            raise SetupError(
                f"{schema.topic}: history needs a key, to know which row a version belongs to, and from LSN "
                f"{format_lsn(schema.latest.position[0])} on there is none: give the table a primary key and "
                "a REPLICA IDENTITY that has it, and begin above the records without a key (startingOffsets, "
                "a new target and a new checkpoint); or use mirror instead of history"
            )
        for name in schema.row_type.names:
            if name.lower() in (VALID_FROM, *_ENDS):
                raise SetupError(f"{schema.topic}: pgrelay adds a column named {name!r} itself: rename it")
        super()._prepare(schema, has_changes=has_changes)

    def write(self, batch: Batch) -> None:
        truncates = batch.changes.where("op = 't'").select("commit_lsn", "seq").distinct()
        done: Position | None = None
        for truncate in truncates.orderBy("commit_lsn", "seq").collect():
            position = (truncate["commit_lsn"], truncate["seq"])
            earlier = before(position) if done is None else f"{before(position)} AND {after(done)}"
            self._add_versions(batch.where(f"op != 't' AND {earlier}"))
            self._end_all(position, batch.changes)
            done = position
        rest = "op != 't'" if done is None else f"op != 't' AND {after(done)}"
        self._add_versions(batch.where(rest))

    def _end_all(self, truncated: Position, changes: DataFrame) -> None:
        """End every older version that still holds at a truncate."""
        lsn, seq = truncated
        at = changes.where((F.col("commit_lsn") == lsn) & (F.col("seq") == seq)).select(
            F.max("ts").alias("ts")
        )
        self.table.run(
            f"MERGE INTO {self.table.name} t USING {{at}} s ON t.{END_LSN} IS NULL AND {older(truncated)}"
            f" WHEN MATCHED THEN UPDATE SET t.{VALID_TO} = s.ts, t.{END_LSN} = {lsn}, t.{END_SEQ} = {seq}",
            at=at,
        )

    def _add_versions(self, batch: Batch) -> None:
        """Add a version for each change, and end the versions before them."""
        schema = batch.schema
        keys = [row_column(name) for name in schema.key]
        by_key = f"PARTITION BY {', '.join(map(quoted, keys))} ORDER BY {COMMIT_LSN}, {SEQ}"
        events = keyed_rows(batch, more=RECORD_COLUMNS).dropDuplicates([*keys, COMMIT_LSN, SEQ])
        if batch.has_lost_values and self.on_missing == "fail":
            refuse_lost_values(batch, every=True)
        first = events.withColumn("__number", F.expr(f"row_number() OVER ({by_key})")).where("__number = 1")
        ends = first.selectExpr(
            *map(quoted, keys), f"ts AS {VALID_TO}", f"{COMMIT_LSN} AS {END_LSN}", f"{SEQ} AS {END_SEQ}"
        )
        holding = self._versions_before(ends, schema)
        if batch.has_unchanged:
            events = self._with_unchanged_filled(events, holding, schema, by_key)
        following = zip(_ENDS, ("ts", COMMIT_LSN, SEQ), strict=True)
        ends_at = [f"lead({name}) OVER ({by_key}) AS {end}" for end, name in following]
        added = events.selectExpr("*", f"ts AS {VALID_FROM}", *ends_at).where(f"NOT {DELETED}")
        self._merge_versions(added, holding, schema)

    def _merge_versions(self, added: DataFrame, closed: DataFrame, schema: TableSchema) -> None:
        """Write new versions, and the ends of the versions before them."""
        rows = [quoted(row_column(name)) for name in schema.row_type.names]
        rows += [COMMIT_LSN, SEQ, VALID_FROM, *_ENDS]
        same = " AND ".join(f"t.{quoted(name)} = s.{quoted(row_column(name))}" for name in schema.key)
        columns, values = columns_and_values(schema.row_type.names)
        self.table.run(
            f"MERGE INTO {self.table.name} t USING {{versions}} s"
            f" ON {same} AND t.{COMMIT_LSN} = s.{COMMIT_LSN} AND t.{SEQ} = s.{SEQ}"
            f" WHEN MATCHED AND s.{END_LSN} IS NOT NULL AND (t.{END_LSN} IS NULL OR s.{END_LSN} < t.{END_LSN}"
            f" OR s.{END_LSN} = t.{END_LSN} AND s.{END_SEQ} < t.{END_SEQ}) THEN UPDATE SET"
            f" {', '.join(f't.{name} = s.{name}' for name in _ENDS)}"
            f" WHEN NOT MATCHED THEN INSERT ({columns}, {VALID_FROM}, {', '.join(_ENDS)})"
            f" VALUES ({values}, s.{VALID_FROM}, {', '.join(f's.{name}' for name in _ENDS)})",
            versions=self.table.merge_source(added.selectExpr(*rows).unionByName(closed.selectExpr(*rows))),
        )

    def _versions_before(self, ends: DataFrame, schema: TableSchema) -> DataFrame:
        """The version that held just before the first event of each key in the batch, given as `ends`.

        It is joined to that event. The table's columns are under their `row_column` names.
        """
        columns = as_row_columns(schema.row_type.names)
        was = [f"{END_LSN} AS __was_lsn", f"{END_SEQ} AS __was_seq"]
        versions = self.table.rows().selectExpr(*columns, COMMIT_LSN, SEQ, VALID_FROM, *was)
        # Ended by this same event if the batch is repeated, by a later one if another partition was ahead.
        ended = f"struct(__was_lsn, __was_seq) >= struct({END_LSN}, {END_SEQ})"
        follows = f"({END_LSN} > {COMMIT_LSN} OR {END_LSN} = {COMMIT_LSN} AND {END_SEQ} > {SEQ})"
        joined = versions.join(ends, [row_column(name) for name in schema.key])
        return joined.where(f"(__was_lsn IS NULL OR {ended}) AND {follows}")

    def _with_unchanged_filled(
        self, events: DataFrame, holding: DataFrame, schema: TableSchema, by_key: str
    ) -> DataFrame:
        """The events, with unchanged values filled in from the version before, in the batch or the target."""
        so_far = f"{by_key} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
        names = [column.name for column in schema.columns if column.toastable]
        keys = [row_column(name) for name in schema.key]
        values = [quoted(row_column(name)) for name in names]
        held = holding.selectExpr(
            *map(quoted, keys), f"struct({', '.join(values)}) AS __held", "1 AS __there"
        )
        last = [f"__last_{number}" for number in range(len(names))]
        sent = [
            unless_unchanged(name, f"struct({value} AS v)") for name, value in zip(names, values, strict=True)
        ]
        lasts = [f"last({v}, true) OVER ({so_far}) AS {n}" for n, v in zip(last, sent, strict=True)]
        joined = events.selectExpr("*", *lasts).join(held, keys, "left")
        joined = self._without_incomplete(joined, last, schema)
        filled = [
            f"CASE WHEN {n} IS NULL THEN __held.{value} ELSE {n}.v END AS {value}"
            for n, value in zip(last, values, strict=True)
        ]
        others = [quoted(row_column(c.name)) for c in schema.columns if c.name not in names]
        return joined.selectExpr(*others, COMMIT_LSN, SEQ, DELETED, "ts", *filled)

    def _without_incomplete(self, joined: DataFrame, last: list[str], schema: TableSchema) -> DataFrame:
        """The events without those that lack a value, which are refused, or set aside in `rejects`."""
        if self.on_missing == "null":
            return joined
        unknown = " OR ".join(f"{value} IS NULL" for value in last)
        lost = F.expr(f"NOT {DELETED} AND __there IS NULL AND ({unknown})")
        row = joined.where(lost).select(key_json(schema.key).alias("key")).first()
        if row is None:
            return joined
        if self.rejects is not None:
            set_aside(self.rejects, joined.where(lost).withColumn("corrupt", missing_row_reason()))
            return joined.where(~lost)
        raise RecordError(
            f"{schema.topic}: an update of the row {row['key']} leaves out a large value, and "
            f"{self.table.name} has no version of that row: start at the topic's beginning, or pass "
            "on_missing='null', or corrupt_to"
        )
