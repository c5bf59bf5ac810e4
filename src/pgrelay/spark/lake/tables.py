"""Tables of the lake: their creation, and how Delta and Iceberg differ."""

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pgrelay.spark.lake.delta_folders import remove_unmade
from pgrelay.spark.names import COMMIT_LSN, literal, quoted, sql_type

Using = Literal["delta", "iceberg"]

# Columns that a format, or Spark's MERGE into it, uses internally: a table's own column of that name is
# mistaken for it, without an error if it is `__row_operation`.
TAKEN: Final[dict[str, frozenset[str]]] = {
    "delta": frozenset(
        (
            *("_metadata", "_row_dropped_", "_source_row_present_", "_tmp_metadata_row_index"),
            *("__delta_internal_is_row_deleted", "deletionvectorid"),
        )
    ),
    "iceberg": frozenset(
        (
            *("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id"),
            *("_last_updated_sequence_number", "__row_operation", "__row_id", "__row_from_source"),
            *("__row_from_target", "__original_row_id__file", "__original_row_id__pos"),
        )
    ),
}

# A data frame's placeholder in a statement; or an identifier or text, which may contain what looks like one.
_SOURCE: Final = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\{(\w+)\}")

# Each batch is a commit, or two, and each commit leaves files. Delta lists them all several times a batch: by
# default those of 30 days. Iceberg writes all metadata to a new file, and by default keeps every one.
_OLD_METADATA: Final[dict[Using, dict[str, str]]] = {
    "delta": {"delta.logRetentionDuration": "interval 7 days"},
    "iceberg": {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "20",
    },
}

# To Delta the two are one choice: the log's may not be the shorter. A session may have its own defaults.
_RETENTIONS: Final = ("deletedFileRetentionDuration", "logRetentionDuration")
_DELTA_DEFAULTS: Final = "spark.databricks.delta.properties.defaults"

_PROPERTIES: Final[dict[str, dict[str, str]]] = {
    "delta": {
        # Columns can be renamed, dropped and have any name; their types can widen.
        "delta.columnMapping.mode": "name",
        "delta.enableTypeWidening": "true",
        "delta.feature.timestampNtz": "supported",
        # A change marks a row as deleted instead of rewriting its whole file.
        "delta.enableDeletionVectors": "true",
    },
    "iceberg": {
        "write.merge.mode": "merge-on-read",
        "write.delete.mode": "merge-on-read",
        "write.update.mode": "merge-on-read",
    },
}


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A Delta or Iceberg table, which may not exist yet. `name` is its full name, quoted."""

    spark: SparkSession
    name: str
    using: Using

    def plain_name(self) -> str:
        """One name for all its spellings: case does not matter, and the session's catalog is implied."""
        name = self.name.casefold().removeprefix("`spark_catalog`.")
        alone = self.using == "delta" and "`.`" not in name
        return f"{quoted(self.spark.catalog.currentDatabase())}.{name}" if alone else name

    def exists(self) -> bool:
        return self.spark.catalog.tableExists(self.name)

    def rows(self) -> DataFrame:
        return self.spark.table(self.name)

    def is_empty(self) -> bool:
        # Asked first: a query that finds no rows takes as long as all else in a new table's first batch.
        table = self.loaded()
        if self.using == "delta":
            told = table.initialSnapshot().checksumOpt()
            has_no_files = told.isDefined() and told.get().numFiles() == 0
        else:
            has_no_files = table.table().currentSnapshot() is None
        return has_no_files or self.rows().isEmpty()

    def replace(self, columns: StructType, properties: Mapping[str, str]) -> None:
        """Give the table these columns, and no rows. Its other `pgrelay.` properties stay."""
        told = {name: value for name, value in self.properties().items() if name.startswith("pgrelay.")}
        self._make("CREATE OR REPLACE TABLE", columns, {**told, **properties})

    def create(self, columns: StructType, properties: Mapping[str, str] | None = None) -> None:
        """Create the table and its namespace if they are missing."""
        namespace = self.name.rpartition("`.`")[0]
        if namespace.count("`.`") >= (1 if self.using == "iceberg" else 0) and namespace:
            self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}`")
        if self.using == "delta":
            remove_unmade(self.spark, self.name)
        self._make("CREATE TABLE IF NOT EXISTS", columns, properties or {})

    def _make(self, how: str, columns: StructType, properties: Mapping[str, str]) -> None:
        listed = ", ".join(f"{quoted(field.name)} {sql_type(field.dataType)}" for field in columns)
        told = _listed({**_PROPERTIES[self.using], **self.old_metadata({}), **properties})
        self.spark.sql(f"{how} {self.name} ({listed}) USING {self.using} TBLPROPERTIES ({told})")

    def properties(self) -> dict[str, str]:
        # SHOW TBLPROPERTIES hides values that contain a word like token or url, even in a topic's name.
        # As an array: a map's iterator ends with an exception, which Py4J takes long to convert.
        entries = self.loaded().properties().entrySet().toArray()
        return {entry.getKey(): entry.getValue() for entry in entries}

    def loaded(self) -> Any:
        """The table as its catalog gives it: a JavaObject."""
        jvm: Any = self.spark._jvm
        # Delta asks this thread for its session, for example to read a checkpoint of version 2.
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(self.spark._jsparkSession)
        gateway: Any = self.spark.sparkContext._gateway
        state: Any = self.spark._jsparkSession.sessionState()
        parsed = state.sqlParser().parseMultipartIdentifier(self.name)
        *namespace, table = (parsed.apply(number) for number in range(parsed.length()))
        manager = state.catalogManager()
        of_catalog = namespace and is_catalog(self.spark, namespace[0])
        catalog = manager.catalog(namespace.pop(0)) if of_catalog else manager.currentCatalog()
        named = namespace if of_catalog else namespace or list(manager.currentNamespace())
        spaces = gateway.new_array(jvm.java.lang.String, len(named))
        for number, name in enumerate(named):
            spaces[number] = name
        identifier = jvm.org.apache.spark.sql.connector.catalog.Identifier.of(spaces, table)
        return catalog.loadTable(identifier)

    def set_properties(self, properties: Mapping[str, str]) -> None:
        self.spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({_listed(properties)})")

    def shed_metadata(self) -> None:
        """Bound old metadata as `create` does; an earlier release did not. A user's own choice stays."""
        if lacking := self.old_metadata(self.properties()):
            self.set_properties(lacking)

    def old_metadata(self, given: Mapping[str, str]) -> dict[str, str]:
        """The properties that bound old metadata, for a table that has these."""
        if self.using == "delta" and self._has_retention(given):
            return {}
        return {name: value for name, value in _OLD_METADATA[self.using].items() if name not in given}

    def _has_retention(self, given: Mapping[str, str]) -> bool:
        """Whether the user chose how long Delta keeps something, for the table or the session."""
        conf = self.spark.conf
        return any(
            f"delta.{name}" in given or conf.get(f"{_DELTA_DEFAULTS}.{name}", None) for name in _RETENTIONS
        )

    def version(self) -> int:
        """The last commit's version in Delta, or snapshot in Iceberg, as `VERSION AS OF` takes them.

        0, which `VERSION AS OF` does not take, for an Iceberg table without a commit. Takes no Spark job, as
        SQL would: a mirror of whole transactions asks for all its targets in each batch.
        """
        table = self.loaded()
        if self.using == "delta":
            return int(table.initialSnapshot().version())
        snapshot = table.table().currentSnapshot()
        return 0 if snapshot is None else int(snapshot.snapshotId())

    def arranged_by(self, column: str) -> Literal["partitioned", "ordered"] | None:
        """How Iceberg arranges the files by a column, now or, of partitions, ever; None if it does not."""
        if self.using == "delta":
            return None  # it refuses to drop such a column
        table = self.loaded().table()
        field = table.schema().asStruct().field(column).fieldId()  # `findField` takes a path
        specs = table.specs().values()
        if any(part.sourceId() == field for spec in specs for part in spec.fields()):
            return "partitioned"
        return "ordered" if any(part.sourceId() == field for part in table.sortOrder().fields()) else None

    def add_absent(
        self, rows: DataFrame, key: Sequence[str], *, since: int | None = None, empties: str = ""
    ) -> None:
        """Add the rows whose key the table does not have yet, under its column names.

        `since`: a commit LSN that none of them is below, so that files of older rows are not read.
        `empties`: the clause of `emptying` that deletes rows in the same commit. Fails if another driver adds
        rows meanwhile: to a plain append that is no conflict, and each row would be there twice.
        """
        if self.using == "delta" or empties:
            same = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in key)
            same += "" if since is None else f" AND t.{COMMIT_LSN} >= {since}"
            columns = ", ".join(map(quoted, rows.columns))
            values = ", ".join(f"s.{quoted(name)}" for name in rows.columns)
            self.run(
                f"MERGE INTO {self.name} t USING {{rows}} s ON {same}"
                f" WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({values}){empties}",
                rows=rows,
            )
            return
        # Iceberg turns such a MERGE into a plain append. An overwrite, even of no row, is checked for
        # conflicts with the commits since a version.
        seen = self.version()
        there = self.rows() if since is None else self.rows().where(f"{COMMIT_LSN} >= {since}")
        there = there.select(*map(quoted, key))
        writer = rows.join(there, list(key), "left_anti").writeTo(self.name)
        if seen:
            writer = writer.option("validate-from-snapshot-id", str(seen))
        writer.option("isolation-level", "serializable").overwrite(F.lit(False))

    def call(self, procedure: str, *arguments: str) -> None:
        """Call one of Iceberg's procedures, which are in the table's catalog."""
        self.spark.sql(self._calling(procedure, *arguments))

    def _calling(self, procedure: str, *arguments: str) -> str:
        catalog, _, name = self.name.partition("`.`")
        given = ", ".join([f"table => {literal(f'`{name}')}", *arguments])
        return f"CALL {catalog}`.system.{procedure}({given})"

    def way_back(self, version: int) -> str:
        """The statement that puts the table to a version, whether that is an earlier one or a later one."""
        if self.using == "delta":
            return f"RESTORE TABLE {self.name} TO VERSION AS OF {version}"
        return self._calling("set_current_snapshot", f"snapshot_id => {version}")

    def expire(self, until: datetime) -> None:
        """Delete Iceberg's snapshots from before a moment, in UTC, and the files that only they need."""
        self.call("expire_snapshots", f"older_than => TIMESTAMP '{until:%Y-%m-%d %H:%M:%S.%f}+00:00'")

    def source(self, rows: DataFrame) -> DataFrame:
        """Rows that were read from tables of the lake, such as this one, as the source of a MERGE into it."""
        # Spark 4.1 has no plan for such a source where it looks for the files to copy.
        copies = "copy-on-write"  # Iceberg's default
        if self.using == "iceberg" and self.properties().get("write.merge.mode", copies).lower() == copies:
            return rows.localCheckpoint()
        return rows

    def run(self, statement: str, **sources: DataFrame) -> None:
        """Run a statement in which `{name}` stands for each of the data frames."""
        with _views(sources) as names:
            self.spark.sql(_SOURCE.sub(lambda found: names[found[1]] if found[1] else found[0], statement))


def is_catalog(spark: SparkSession, name: str) -> bool:
    """Whether the session has a catalog of that name."""
    return spark.conf.get(f"spark.sql.catalog.{name}", None) is not None


def _listed(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())


@contextmanager
def _views(frames: dict[str, DataFrame]) -> Iterator[dict[str, str]]:
    """Temporary views of data frames, each under a unique name."""
    names = {name: f"pgrelay_{name}_{uuid.uuid4().hex}" for name in frames}
    try:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(names[name])
        yield names
    finally:
        for name, frame in frames.items():
            frame.sparkSession.catalog.dropTempView(names[name])
