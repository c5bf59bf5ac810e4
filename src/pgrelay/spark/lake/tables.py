"""Tables of the lake: what Delta's and Iceberg's have in common, and what each must implement."""

import dataclasses
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock
from typing import Any, ClassVar, Final, Literal, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StringType, StructType

from pgrelay.spark.names import COMMIT_LSN, literal, quoted, sql_type

Using = Literal["delta", "iceberg"]

# How long an internal table keeps old versions: for a driver of ours that is reading one.
INTERNAL_RETENTION: Final = timedelta(minutes=10)

# The columns of an internal table that keeps only properties: Delta takes several jobs for each row of it.
PROPERTIES_ONLY: Final = StructType().add("topic", StringType())

# A data frame's placeholder in a statement; or an identifier or text, which may contain what looks like one.
_SOURCE: Final = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\{(\w+)\}")

_MARK_LOCK: Final = Lock()


@dataclass(frozen=True, slots=True)
class LakeTable(ABC):
    """A Delta or Iceberg table, which may not exist yet. `name` is its full name, quoted.

    `is_internal`: it is one of ours beside the targets, written with every batch. Nobody else reads it, or an
    old version of it, so it keeps no versions but those of the last minutes.
    """

    spark: SparkSession
    name: str
    is_internal: bool = False

    using: ClassVar[Using]
    # Columns that the format, or Spark's MERGE into it, uses internally, in lower case: a table's own column
    # of that name is mistaken for it, without an error if it is `__row_operation`.
    taken: ClassVar[frozenset[str]]
    # The session's setting that attaches a text to commits.
    _mark_setting: ClassVar[str]

    def companion(self, suffix: str) -> Self:
        """The internal table whose name is this one's with a suffix."""
        return dataclasses.replace(self, name=f"{self.name[:-1]}{suffix}`", is_internal=True)

    def internal_table(self, name: str) -> Self:
        """The internal table of that (unquoted) name in this one's namespace."""
        full = f"{self.namespace}.{quoted(name)}" if self.namespace else quoted(name)
        return dataclasses.replace(self, name=full, is_internal=True)

    @property
    def namespace(self) -> str:
        """The part of the name before the table's own, quoted, with its catalog; empty if there is none."""
        space, point, _ = self.name.rpartition("`.`")
        return space + point[:1]

    def canonical_name(self) -> str:
        """The name, the same for all spellings: in lower case, without the session's catalog."""
        return self.name.casefold().removeprefix("`spark_catalog`.")

    def exists(self) -> bool:
        return self.spark.catalog.tableExists(self.name)

    def rows(self) -> DataFrame:
        return self.spark.table(self.name)

    def is_empty(self) -> bool:
        # The metadata first: a query that finds no rows takes as long as the rest of a table's first batch.
        return self._has_no_files() or self.rows().isEmpty()

    @abstractmethod
    def _has_no_files(self) -> bool:
        """Whether the table's metadata shows that it has no rows, without a Spark job."""

    def replace(self, columns: StructType, properties: Mapping[str, str]) -> None:
        """Give the table these columns, and no rows. Its other `pgrelay.` properties stay."""
        ours = {name: value for name, value in self.properties().items() if name.startswith("pgrelay.")}
        self._create("CREATE OR REPLACE TABLE", columns, {**ours, **properties})

    def create(self, columns: StructType, properties: Mapping[str, str] | None = None) -> None:
        """Create the table and its namespace if they are missing."""
        self._prepare_namespace()
        self._create("CREATE TABLE IF NOT EXISTS", columns, properties or {})

    @abstractmethod
    def _prepare_namespace(self) -> None:
        """Create the namespace if it is missing, and remove what would prevent the table's creation."""

    @property
    @abstractmethod
    def _defaults(self) -> Mapping[str, str]:
        """Properties of a new table; some limit how much old metadata it keeps."""

    def _create(self, statement: str, columns: StructType, properties: Mapping[str, str]) -> None:
        fields = ", ".join(f"{quoted(field.name)} {sql_type(field.dataType)}" for field in columns)
        pairs = _property_list({**self._defaults, **properties})
        self.spark.sql(f"{statement} {self.name} ({fields}) USING {self.using} TBLPROPERTIES ({pairs})")

    @abstractmethod
    def drop(self) -> None:
        """Drop the table with its files."""

    def properties(self) -> dict[str, str]:
        # SHOW TBLPROPERTIES hides values that contain a word like token or url, even in a topic's name.
        # As an array: a map's iterator ends with an exception, which Py4J takes long to convert.
        entries = self.load().properties().entrySet().toArray()
        return {entry.getKey(): entry.getValue() for entry in entries}

    def load(self) -> Any:
        """The table's Java object, from its catalog."""
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
        self.spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({_property_list(properties)})")

    @abstractmethod
    def refuse_staging(self) -> None:
        """Raise SetupError if the session's writes would only be staged, for somebody to publish later."""

    @abstractmethod
    def trim_log(self) -> None:
        """Keep the log of an internal table short; called after commits to it."""

    @abstractmethod
    def compact(self) -> None:
        """Rewrite small files as large ones, without the rows that are marked as deleted."""

    @abstractmethod
    def refuse_purge(self, older_than: timedelta) -> None:
        """Raise SetupError if a purge of such versions could disturb a reader, unless the session permits."""

    @abstractmethod
    def purge(self, older_than: timedelta) -> None:
        """Delete the files that only versions older than this need."""

    @abstractmethod
    def remove_old_files(self) -> None:
        """Delete the files that only old versions of an internal table need."""

    @abstractmethod
    def version(self) -> int:
        """The last commit's version in Delta, or snapshot in Iceberg, as `VERSION AS OF` takes them.

        0, which `VERSION AS OF` does not take, for an Iceberg table without a commit. Takes no Spark job, as
        SQL would: a mirror of whole transactions asks for all its targets in each batch.
        """

    @abstractmethod
    def restore_statement(self, version: int) -> str:
        """The statement that restores a version of the table, an earlier or a later one."""

    @contextmanager
    def marking(self, mark: str) -> Iterator[None]:
        """Marks the commits made in the block; a mark is part of its commit."""
        setting, conf = self._mark_setting, self.spark.conf
        with _MARK_LOCK:  # the setting is the session's
            before = conf.get(setting, None)
            conf.set(setting, mark)
            try:
                yield
            finally:
                if before is None:
                    conf.unset(setting)
                else:
                    conf.set(setting, before)

    @abstractmethod
    def marks(self, since: int | None = None) -> tuple[list[str], bool]:
        """The marks of those commits after the version `since`, by default of all, that have one.

        And whether all commits since then are known: logs are cleaned, and snapshots expire.
        """

    @abstractmethod
    def was_reverted(self, since: int) -> bool:
        """Whether the table lost what it had at the version `since`: it was restored to an earlier one, or
        replaced.

        False if nothing shows it: logs are cleaned, and snapshots expire.
        """

    def stored_type(self, kind: DataType) -> str:
        """The type as the format stores it."""
        return kind.simpleString()

    @abstractmethod
    def layout_role(self, column: str) -> Literal["partitioned", "ordered"] | None:
        """How a column determines the layout of the files (for partitions: ever did), if the format would
        drop it regardless, and could not write any more; else None."""

    def insert_if_absent(
        self, rows: DataFrame, key: Sequence[str], *, min_lsn: int | None = None, delete_clause: str = ""
    ) -> None:
        """Insert the rows, under the table's column names, whose key it does not have yet.

        `min_lsn`: none of them has a lower commit LSN, so that files of older rows are not read.
        `delete_clause`: the one of `truncate_clauses` that deletes rows in the same commit. Fails if another
        driver adds rows meanwhile: to a plain append that is no conflict, and each row would be there twice.
        """
        same = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in key)
        same += "" if min_lsn is None else f" AND t.{COMMIT_LSN} >= {min_lsn}"
        columns = ", ".join(map(quoted, rows.columns))
        values = ", ".join(f"s.{quoted(name)}" for name in rows.columns)
        self.run(
            f"MERGE INTO {self.name} t USING {{rows}} s ON {same}"
            f" WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({values}){delete_clause}",
            rows=rows,
        )

    def merge_source(self, rows: DataFrame) -> DataFrame:
        """Rows read from tables of the lake, such as this one, as the source of a MERGE into it."""
        return rows

    def run(self, statement: str, **sources: DataFrame) -> None:
        """Run a statement in which `{name}` stands for each of the data frames."""
        with _temp_views(sources) as names:
            self.spark.sql(_SOURCE.sub(lambda found: names[found[1]] if found[1] else found[0], statement))


def is_catalog(spark: SparkSession, name: str) -> bool:
    """Whether the session has a catalog of that name."""
    return spark.conf.get(f"spark.sql.catalog.{name}", None) is not None


def _property_list(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())


@contextmanager
def _temp_views(frames: dict[str, DataFrame]) -> Iterator[dict[str, str]]:
    """Temporary views of data frames, each under a unique name."""
    names = {name: f"pgrelay_{name}_{uuid.uuid4().hex}" for name in frames}
    try:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(names[name])
        yield names
    finally:
        for name, frame in frames.items():
            frame.sparkSession.catalog.dropTempView(names[name])
