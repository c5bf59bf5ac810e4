"""Following a table's schema: columns added, dropped, renamed, and types that widen.

Every step is one that finds its work done where the target has it already, so that a mirror killed in between
does it again.
"""

from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, IntegerType, ShortType

from pgrelay.errors import SetupError
from pgrelay.lsn import format_lsn
from pgrelay.spark.columns import Column
from pgrelay.spark.lake import LakeTable
from pgrelay.spark.names import COMMIT_LSN, SEQ, quoted
from pgrelay.spark.schema import Position, TableSchema, TableVersion
from pgrelay.spark.widening import widens

_CURE: Final = "to go on, drop the target and its __positions, and mirror from the topic's beginning"


def evolve(target: LakeTable, schema: TableSchema, since: Position, *, keep_dropped: bool = False) -> None:
    """Make the target, which has the schema as of `since`, what the schema's last version is.

    `keep_dropped`: columns stay in the target that the table has no longer.

    Raises SetupError with column and LSN where values would be lost, or the format can't follow.
    """
    for earlier, later in zip(schema.versions, schema.versions[1:], strict=False):
        if later.position > since:
            _step(target, schema, earlier, later, keep_dropped)
    _demand(target, schema)


def _step(
    target: LakeTable,
    schema: TableSchema,
    earlier: TableVersion,
    later: TableVersion,
    keep_dropped: bool,
) -> None:
    renames = earlier.renames(later)
    there = {column.name: column for column in later.columns}
    for column in earlier.columns:
        now = there.get(renames.get(column.name, column.name))
        if now is not None:
            _refuse_loss(schema, column, now, later.position)
    present = set(target.rows().columns)
    for old, new in renames.items():
        if old in present and new not in present:
            _alter(target, schema, later, new, f"RENAME COLUMN {quoted(old)} TO {quoted(new)}")
    kept = {renames.get(column.name, column.name) for column in earlier.columns} & there.keys()
    for name in [c.name for c in earlier.columns if c.name not in renames and c.name not in kept]:
        if name in present and not keep_dropped:
            _alter(target, schema, later, name, f"DROP COLUMN {quoted(name)}")
    for name, column in there.items():
        kind = column.spark_type
        if name not in kept and name not in present:
            _alter(target, schema, later, name, f"ADD COLUMN {quoted(name)} {kind.simpleString()}")
        elif name in kept and _stored(target, target.rows().schema[name].dataType) != _stored(target, kind):
            _alter(target, schema, later, name, f"ALTER COLUMN {quoted(name)} TYPE {kind.simpleString()}")


def _refuse_loss(schema: TableSchema, was: Column, now: Column, position: Position) -> None:
    if widens(was.spark_type, now.spark_type):
        return
    raise SetupError(
        f"{schema.topic}: column {now.name!r} was {was.spark_type.simpleString()} and is "
        f"{now.spark_type.simpleString()} from LSN {format_lsn(position[0])} on, which can't hold all that "
        f"it was; {_CURE}"
    )


def _alter(target: LakeTable, schema: TableSchema, later: TableVersion, name: str, change: str) -> None:
    try:
        target.spark.sql(f"ALTER TABLE {target.name} {change}")
    except PySparkException as error:
        reason = str(error).partition("\n")[0]
        raise SetupError(
            f"{schema.topic}: {target.using} can't follow the change of column {name!r} at LSN "
            f"{format_lsn(later.position[0])}: {reason}; {_CURE}"
        ) from error


def _demand(target: LakeTable, schema: TableSchema) -> None:
    """Raise SetupError where the target is not what it must be by now: somebody else made or altered it."""
    fields = {field.name: field.dataType for field in target.rows().schema}
    for name in (COMMIT_LSN, SEQ):
        if name not in fields:
            raise SetupError(f"{target.name} has no column {name}, so it is no mirror: name another target")
    for column in schema.columns:
        kind = fields.get(column.name)
        if kind is None or _stored(target, kind) != _stored(target, column.spark_type):
            shown = "missing" if kind is None else kind.simpleString()
            raise SetupError(
                f"{schema.topic}: column {column.name!r} is {column.spark_type.simpleString()}, and in "
                f"{target.name} it is {shown}; {_CURE}"
            )


def _stored(target: LakeTable, kind: DataType) -> str:
    """What the format makes of a type: Iceberg has no smallint."""
    if target.using == "iceberg":
        if isinstance(kind, ShortType):
            kind = IntegerType()
        elif isinstance(kind, ArrayType) and isinstance(kind.elementType, ShortType):
            kind = ArrayType(IntegerType())
    return kind.simpleString()
