"""The table of the records that a mirror of whole transactions holds back.

Each batch may append some. Those that were applied since are skipped, until a sweep deletes them.
"""

from typing import Final

import structlog
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pgrelay.spark.failures import one_line
from pgrelay.spark.lake.tables import LakeTable

_log = structlog.get_logger(__name__)

_SWEEP_EVERY: Final = 10  # batches
_REMOVE_EVERY: Final = 500  # batches, whose files take little room


class HeldRecords:
    """`table` is internal; it has records as POSITIONED, with the begins and ends of transactions."""

    def __init__(self, table: LakeTable) -> None:
        self.table = table

    def after(self, until: int) -> DataFrame:
        """The records after a commit."""
        return self.table.rows().where(F.col("commit_lsn") > until)

    def add(self, records: DataFrame, *, may_repeat: bool) -> None:
        """Keep records of a batch; if it may be a repetition, only those that the table does not have."""
        if may_repeat:
            self.table.insert_if_absent(records, ["topic", "partition", "offset"])
        else:
            records.writeTo(self.table.name).append()
        self.table.trim_log()

    def clean_up(self, until: int, batch: int) -> None:
        """Every few batches, delete the records up to a commit, which are applied; more rarely, old files."""
        if batch % _SWEEP_EVERY == 0:
            self._sweep(until)
        if batch % _REMOVE_EVERY == _REMOVE_EVERY - 1:
            self.remove_old_files()

    def _sweep(self, until: int) -> None:
        if not self.table.rows().where(F.col("commit_lsn") <= until).isEmpty():
            self.table.run(f"DELETE FROM {self.table.name} WHERE commit_lsn <= {until}")

    def remove_old_files(self) -> None:
        """Delete the files that no version of the last minutes needs: a batch may write one, a sweep drops
        it.

        A failure is only logged: no row depends on it, and the account may lack the right to delete files.
        """
        try:
            self.table.remove_old_files()
        except (PySparkException, Py4JJavaError) as error:
            _log.warning("old files stay", table=self.table.name, reason=one_line(error))
