"""The result of a demo: the counts of records, and the proof that they equal the tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pgrelay.demo.change import TOMBSTONE, TRUNCATE
from pgrelay.demo.fold import Comparison
from pgrelay.demo.screen import Line
from pgrelay.demo.tally import Tally
from pgrelay.demo.view import OP_STYLES
from pgrelay.figures import counted

_OPS: Final = ("c", "u", "d", TOMBSTONE, TRUNCATE, "m")


@dataclass(frozen=True, slots=True)
class Outcome:
    """`streamed`: how many transactions were sent before they committed, and in how many parts.

    `lake`: the comparisons with the lake's tables, if there is a lake.
    """

    tally: Tally
    comparisons: Sequence[Comparison]
    streamed: tuple[int, int]
    shown: int
    elapsed_s: float
    relay_exit_code: int
    lake: Sequence[Comparison] = ()
    lake_lag: str = ""

    @property
    def succeeded(self) -> bool:
        equal = all(comparison.equal for comparison in (*self.comparisons, *self.lake))
        return equal and not self.tally.leaked and self.relay_exit_code == 0


def summary(outcome: Outcome) -> Iterator[Line]:
    """The summary's lines, whatever the outcome."""
    yield []
    yield from _counts(outcome)
    yield []
    yield from _equality(outcome.comparisons)
    yield from _lake(outcome)
    yield from _rolled_back(outcome.tally)
    transactions, parts = outcome.streamed
    if transactions:
        yield _point(
            "streamed", f"{counted(transactions, 'large transaction')} sent before commit, in {parts} parts"
        )
    tally = outcome.tally
    yield _point("lag", f"{tally.lag_ms:.0f} ms from commit to consumer, {tally.max_lag_ms:.0f} ms at most")
    yield _point(
        "records",
        f"{tally.total:,} in {outcome.elapsed_s:.1f} s; {counted(outcome.shown, 'row change')} shown above",
    )
    code = outcome.relay_exit_code
    yield _point("relay", f"stopped with exit code {code}", good=code == 0)


def _counts(outcome: Outcome) -> Iterator[Line]:
    """Each table's records by op, and its current number of rows."""
    rows = {comparison.table: comparison.rows for comparison in outcome.comparisons}
    records = outcome.tally.records
    tables = [*rows, *sorted({table for table, _ in records} - rows.keys())]
    yield [("", f"{'':15}"), *((OP_STYLES[op], f"{op:>8}") for op in _OPS), ("dim", f"{'rows now':>12}")]
    for table in tables:
        counts = [records[table, op] for op in _OPS]
        now = f"{rows[table]:,}" if table in rows else ""
        cells = [("", f"{count:>8,}") if count else ("dim", f"{'·':>8}") for count in counts]
        yield [("", f"{table:15}"), *cells, ("", f"{now:>12}")]


def _equality(comparisons: Sequence[Comparison]) -> Iterator[Line]:
    different = [comparison for comparison in comparisons if not comparison.equal]
    for each in different:
        text = (
            f"{each.table}: {each.missing:,} of its {counted(each.rows, 'row')} not in the topic, "
            f"{counted(each.surplus, 'row')} of the topic not in the table"
        )
        yield _point("DIFFERENT", text, good=False)
    if not different:
        rows = sum(comparison.rows for comparison in comparisons)
        yield _point(
            "equal",
            f"the topics, folded, equal the {len(comparisons)} tables: {counted(rows, 'row')}, every value",
        )


def _lake(outcome: Outcome) -> Iterator[Line]:
    """Each table's row count beside the lake's, and the lag."""
    if not outcome.lake:
        return
    yield []
    yield [("", f"{'':15}"), ("dim", f"{'in Postgres':>12}{'in the lake':>12}")]
    for each in outcome.lake:
        in_lake = each.rows - each.missing + each.surplus
        word = ("green", "  equal") if each.equal else ("red", "  DIFFERENT")
        yield [("", f"{each.table:15}{each.rows:>12,}{in_lake:>12,}"), word]
    yield []
    yield _point("lake lag", outcome.lake_lag)


def _rolled_back(tally: Tally) -> Iterator[Line]:
    rows = counted(len(tally.rolled_back), "row")
    if tally.leaked:
        text = f"{len(tally.leaked):,} of {rows} that savepoints rolled back are in Kafka"
        yield _point("ROLLED BACK", text, good=False)
    elif tally.rolled_back:
        yield _point("rolled back", f"{rows} at savepoints; none of them is in Kafka")


def _point(label: str, text: str, *, good: bool = True) -> Line:
    return [("green" if good else "red", f"{label:<13}"), ("", text)]
