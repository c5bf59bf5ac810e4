"""Schema evolution of a target: columns are added, dropped and renamed, and types widen.

Every step is idempotent, so that a mirror that was killed in the middle of one can repeat it.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from pgrelay.errors import SetupError
from pgrelay.lsn import format_lsn
from pgrelay.spark.failures import root_cause
from pgrelay.spark.lake.positions import target_properties
from pgrelay.spark.lake.tables import LakeTable
from pgrelay.spark.names import COMMIT_LSN, SEQ, quoted, sql_type
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import UNKNOWN_POSITION, Position, TableSchema, TableVersion
from pgrelay.spark.schemas.widening import widens

# Cures if the target is not what the schema says, and if its rows can't be converted.
_RELOAD_CURE: Final = (
    "drop the target with pgrelay.spark.drop, and mirror from the topic's beginning with a new checkpoint"
)
REFILL_CURE: Final = (
    "to go on, drop the target with pgrelay.spark.drop, mirror the records above that LSN (startingOffsets "
    "and a new checkpoint), and UPDATE every row"
)

_OURS: Final = (COMMIT_LSN, SEQ)

# Spark's text for a change that Iceberg refuses; that error has no class of its own.
_UNSUPPORTED: Final = "Unsupported table change"


def evolve(
    target: LakeTable,
    schema: TableSchema,
    since: Position,
    *,
    live: Callable[[], DataFrame],
    keep_dropped: bool = False,
) -> None:
    """Bring the target from the schema as of `since` to the schema's last version.

    `live` returns its rows that changes are merged into. With `keep_dropped`, dropped columns stay in the
    target, and are renamed if a new column takes their name.

    Raises SetupError with column and LSN if values would be lost, if rows could not be found by their key, or
    if the format can't follow.
    """
    for position, doubt in schema.doubts():
        if position > since:
            raise SetupError(f"{schema.topic}: from LSN {format_lsn(position[0])} on, {doubt}; {REFILL_CURE}")
    # No target ever had a version that Spark can't represent.
    for earlier, later in pairwise(version for version in schema.versions if not schema.clash(version)):
        if later.position > since:
            step = _Step(target, schema, earlier, later)
            if keep_dropped:
                step.rename_dropped()
            step.refuse_null_keys(live())
            step.apply(keep_dropped=keep_dropped)
            # A later step may reuse a name that this one dropped: this one must not be repeated after it.
            target.set_properties(target_properties(schema.until(later.position)))
    require_columns(target, schema)


def matching_position(target: LakeTable, schema: TableSchema, keep_dropped: bool) -> Position:
    """The position of the last version that has the target's columns; later ones are still to be followed."""
    fields = {field.name: target.stored_type(field.dataType) for field in target.rows().schema}
    fits = UNKNOWN_POSITION
    for version in schema.versions:
        wanted = {column.name: target.stored_type(column.spark_type) for column in version.columns}
        if wanted.items() <= fields.items() and (keep_dropped or len(wanted) == len(fields) - len(_OURS)):
            fits = version.position
    return fits


class _Step:
    """Takes a target from one version of its schema to the next."""

    def __init__(
        self, target: LakeTable, schema: TableSchema, earlier: TableVersion, later: TableVersion
    ) -> None:
        self._target = target
        self._topic = schema.topic
        self._earlier = earlier
        self._later = later
        self._became = schema.became(earlier, later)
        self._was = {now: was for was, now in self._became.items()}
        self._lsn = format_lsn(later.position[0])

    def rename_dropped(self) -> None:
        """Rename kept columns that Postgres has dropped, if new columns take their names.

        Otherwise current rows would have a dropped column's values under the new column's name.
        """
        rows, had = self._target.rows(), {column.name for column in self._earlier.columns}
        # To Spark, names that differ only in case are the same.
        others = {field.name.lower(): field for field in rows.schema if field.name not in self._became}
        for name, kind in ((column.name, column.spark_type) for column in self._later.columns):
            other = others.get(name.lower())
            if other is None or name in had:
                continue
            if name in self._was:
                in_the_way = self._was[name] in rows.columns  # else a repeated step has renamed it already
            else:
                # A repeated step finds the column that it added, still without values.
                stored = self._target.stored_type
                same = other.name == name and stored(other.dataType) == stored(kind)
                in_the_way = not same or self._has_values(name)
            if in_the_way:
                aside = f"{other.name}__before_{self._lsn.replace('/', '_')}"
                if aside.lower() in others:  # by an earlier change of the same transaction
                    aside += f"_{self._later.position[1]}"
                self._alter(name, f"RENAME COLUMN {quoted(other.name)} TO {quoted(aside)}")

    def refuse_null_keys(self, live: DataFrame) -> None:
        """Raise SetupError if a column that is null in rows of the target becomes part of the key.

        In Postgres every row has a value there. A null equals nothing, so a change would not find its row.
        """
        keys = {self._became.get(column.name) for column in self._earlier.columns if column.key}
        for name in [column.name for column in self._later.columns if column.key and column.name not in keys]:
            # It has its new name if a mirror was killed after the rename.
            stored_name = next((each for each in (self._was.get(name), name) if each in live.columns), None)
            unfilled = live if stored_name is None else live.where(F.col(quoted(stored_name)).isNull())
            if not unfilled.isEmpty():
                raise SetupError(
                    f"{self._topic}: from LSN {self._lsn} on, column {name!r} is part of the key, but rows "
                    f"of {self._target.name} have no value in it, so changes would not find them: no record "
                    "has the values, or those that do are in a partition not read as far (then mirror with a "
                    f"new checkpoint, without maxOffsetsPerTrigger or with whole_transactions); {REFILL_CURE}"
                )

    def apply(self, *, keep_dropped: bool) -> None:
        """Alter the target's columns. Raises SetupError if the format can't, or values would be lost."""
        later = {column.name: column for column in self._later.columns}
        for column in self._earlier.columns:
            if column.name in self._became:
                self._refuse_loss(column, later[self._became[column.name]])
        present = set(self._target.rows().columns)
        for name in [column.name for column in self._earlier.columns if column.name not in self._became]:
            if name in present and not keep_dropped:
                self._refuse_layout_column(name)
                self._alter(name, f"DROP COLUMN {quoted(name)}")
        for old, new in self._became.items():
            if old != new:
                self._rename(old, new)
        stored = {
            field.name: self._target.stored_type(field.dataType) for field in self._target.rows().schema
        }
        for name, column in later.items():
            kind, kept = column.spark_type, name in self._was
            if not kept and name not in stored:
                self._alter(name, f"ADD COLUMN {quoted(name)} {sql_type(kind)}")
            elif not kept and not keep_dropped:
                self._refuse_filled(name)
            elif kept and name in stored and stored[name] != self._target.stored_type(kind):
                self._widen(column)

    def _has_values(self, name: str) -> bool:
        return not self._target.rows().where(F.col(quoted(name)).isNotNull()).isEmpty()

    def _refuse_filled(self, name: str) -> None:
        """Raise SetupError if the target already has a column that Postgres adds, with somebody else's
        values.

        A repeated step finds the column that it added, still without values.
        """
        if self._has_values(name):
            raise SetupError(
                f"{self._topic}: Postgres added column {name!r} at LSN {self._lsn}, but {self._target.name} "
                f"had it before, with values that are not Postgres's: ALTER TABLE {self._target.name} RENAME "
                f"COLUMN {quoted(name)} TO another name"
            )

    def _refuse_layout_column(self, name: str) -> None:
        """Raise SetupError if a column that Postgres dropped determines the layout of the files: Iceberg
        would drop it, and could not write any more."""
        role = self._target.layout_role(name)
        if role is not None:
            raise SetupError(
                f"{self._topic}: Postgres dropped column {name!r} at LSN {self._lsn}, by which "
                f"{self._target.name} is or was {role}, and Iceberg can't drop it: "
                + (f"ALTER TABLE {self._target.name} WRITE UNORDERED" if role == "ordered" else REFILL_CURE)
            )

    def _refuse_loss(self, was: Column, now: Column) -> None:
        if not widens(was.spark_type, now.spark_type):
            raise SetupError(
                f"{self._topic}: column {now.name!r} was {was.spark_type.simpleString()} and is "
                f"{now.spark_type.simpleString()} from LSN {self._lsn} on, and not all of its values can be "
                f"carried over as they are; {REFILL_CURE}"
            )

    def _widen(self, column: Column) -> None:
        place, kind = quoted(column.name), column.spark_type
        while isinstance(kind, ArrayType):
            place, kind = f"{place}.element", kind.elementType
        self._alter(column.name, f"ALTER COLUMN {place} TYPE {kind.simpleString()}")

    def _rename(self, old: str, new: str) -> None:
        present = set(self._target.rows().columns)
        steps = [(old, new)]
        if old.lower() == new.lower():
            # To Spark the new name is taken: rename it in two steps.
            steps = [(old, f"__renamed_{new}"), (f"__renamed_{new}", new)]
        for one, other in steps:
            if one in present:
                self._alter(new, f"RENAME COLUMN {quoted(one)} TO {quoted(other)}")
                present.add(other)

    def _alter(self, name: str, change: str) -> None:
        """Alter the target for a change of column `name`. Raises SetupError if the format can't follow it."""
        try:
            self._target.spark.sql(f"ALTER TABLE {self._target.name} {change}")
        except (PySparkException, Py4JJavaError) as error:
            if isinstance(error, Py4JJavaError) and _UNSUPPORTED not in str(error):
                raise  # such as a full disk, which is temporary
            reason = str(error).partition("\n")[0]
            if isinstance(error, Py4JJavaError):
                kind, _, text = root_cause(error).partition(": ")
                reason = text or kind
            raise SetupError(
                f"{self._topic}: {self._target.using} can't follow the change of column {name!r} at LSN "
                f"{self._lsn}: {reason}; {REFILL_CURE}"
            ) from error


def require_columns(target: LakeTable, schema: TableSchema) -> None:
    """Raise SetupError if the target lacks columns of the schema: somebody else made or altered it."""
    fields = {field.name: field.dataType for field in target.rows().schema}
    for name in _OURS:
        if name not in fields:
            raise SetupError(f"{target.name} has no column {name}, so no mirror made it: name another target")
    for column in schema.columns:
        kind = fields.get(column.name)
        if kind is None or target.stored_type(kind) != target.stored_type(column.spark_type):
            shown = "missing" if kind is None else kind.simpleString()
            raise SetupError(
                f"{schema.topic}: column {column.name!r} is {column.spark_type.simpleString()}, but in "
                f"{target.name} it is {shown}: {_RELOAD_CURE}"
            )
