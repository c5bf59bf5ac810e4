"""Up to which commit transactions are whole, by the transaction topic, and what is held back after that."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pgrelay.encode.topics import shorten
from pgrelay.spark.mirrors.checkpoint import Offsets

T = TypeVar("T", float, tuple[int, str])


@dataclass(frozen=True, slots=True)
class Incomplete:
    """A commit that has fewer events in a topic (`received`) than its transaction's end says (`events`)."""

    commit_lsn: int
    topic: str
    received: int
    events: int


@dataclass(frozen=True, slots=True)
class TransactionProgress:
    """How far transactions are whole, and what they wait for after that.

    until    the last commit LSN up to which all transactions are whole
    waiting  the first commit that waits for records, once for each topic that lacks some
    lost     commits up to `until` that can't be whole any more: the last one of each topic
    """

    until: int
    waiting: tuple[Incomplete, ...] = ()
    lost: tuple[Incomplete, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A summary of the records that are held back: those after the last whole transaction.

    rows              the number of tables' records
    has_new           whether any of the records came in this batch
    oldest_s          the oldest commit time, in seconds since 1970; None if there are no records
    first             the first row's commit LSN and topic; None if there are no rows
    boundaries        the number of records of the transaction topic, and of `ends` among them
    first_unreadable  partition and offset of that topic's first record in the batch that can't be read, and
                      so has no commit LSN to be held back by; None if all can be read
    """

    rows: int = 0
    has_new: bool = False
    oldest_s: float | None = None
    first: tuple[int, str] | None = None
    boundaries: int = 0
    ends: int = 0
    first_unreadable: tuple[int, int] | None = None

    @property
    def first_without_boundaries(self) -> tuple[int, str] | None:
        """The first row, if there is no record of the transaction topic."""
        return None if self.boundaries else self.first

    def combined_with(self, later: "HeldBack") -> "HeldBack":
        """The summary after one more batch, `later` being the summary of that batch's records."""
        return HeldBack(
            rows=self.rows + later.rows,
            has_new=later.has_new,
            oldest_s=_min(self.oldest_s, later.oldest_s),
            first=_min(self.first, later.first),
            boundaries=self.boundaries + later.boundaries,
            ends=self.ends + later.ends,
            first_unreadable=later.first_unreadable,
        )


def _min(one: T | None, other: T | None) -> T | None:
    return min((each for each in (one, other) if each is not None), default=None)


def transaction_topic(prefix: str) -> str:
    """The topic to which a relay writes the begins and ends of transactions."""
    return shorten(f"{prefix}.transaction")


def min_read_lsns(records: DataFrame, ends: Offsets) -> dict[str, int]:
    """For each topic, the commit LSN that all its partitions are read up to: no record below it can come.

    Positions only rise within a partition. `ends` names the existing partitions.
    """
    by_partition = records.where("seq IS NOT NULL").groupBy("topic", "partition")
    read: dict[str, dict[int, int]] = {}
    for row in by_partition.agg(F.max("commit_lsn").alias("lsn")).collect():
        read.setdefault(row["topic"], {})[row["partition"]] = row["lsn"]
    return {
        topic: min(lsns.values()) for topic, lsns in read.items() if lsns.keys() >= ends.get(topic, {}).keys()
    }


def transaction_progress(
    records: DataFrame, tables: Mapping[str, str], since: int, read_lsns: Mapping[str, int]
) -> TransactionProgress:
    """Up to which commit LSN every transaction is whole, which is `since` if no later one is.

    `records` have topic, offset, commit_lsn, seq and boundary, and may be duplicated; `tables` gives the
    topic of each mirrored schema.table; `read_lsns` is the result of `min_read_lsns`. Nothing waits for
    events that can't come: those below `read_lsns`, and those of a transaction whose begin was not read.
    """
    later = records.where(F.col("commit_lsn") > since)
    boundaries = later.where("boundary IS NOT NULL").select("boundary.*", "offset")
    ended = boundaries.where("status = 'END'")
    begun = boundaries.where("status = 'BEGIN'").select("commit_lsn", F.lit(True).alias("begun")).distinct()
    incomplete = _incomplete(later, ended, tables).join(begun, "commit_lsn", "left").na.fill(False, ["begun"])
    is_past = F.col("commit_lsn") < F.try_element_at(_map(read_lsns, "bigint"), F.col("topic"))
    waits = F.col("begun") & ~F.coalesce(is_past, F.lit(False))
    what = F.struct("commit_lsn", "topic", "received", "events")
    of_topics = (
        incomplete.groupBy("topic")
        .agg(F.min(F.when(waits, what)).alias("first"), F.max(F.when(~waits, what)).alias("lost"))
        .collect()
    )
    first = [Incomplete(*row["first"]) for row in of_topics if row["first"] is not None]
    lost = [Incomplete(*row["lost"]) for row in of_topics if row["lost"] is not None]
    stop = min((each.commit_lsn for each in first), default=None)
    whole = ended if stop is None else ended.where(F.col("commit_lsn") < stop)
    [last] = whole.agg(F.max("commit_lsn")).first() or [None]
    until = since if last is None else int(last)
    return TransactionProgress(
        until,
        tuple(each for each in first if each.commit_lsn == stop),
        tuple(each for each in lost if each.commit_lsn <= until),
    )


def held_back(records: DataFrame, until: int, boundaries: str) -> HeldBack:
    """A summary of the records after a commit.

    `records` are those of `transaction_progress`, with `ts_ms` and `is_new`; `boundaries` is the transaction
    topic.
    """
    is_boundary = F.col("topic") == boundaries
    is_unreadable = is_boundary & F.col("commit_lsn").isNull()
    later = records.where((F.col("commit_lsn") > until) | is_unreadable)
    found = later.agg(
        F.count("seq").alias("rows"),
        F.max(F.when(~is_unreadable, F.col("is_new"))).alias("has_new"),
        F.min("ts_ms").alias("oldest_ms"),
        F.min(F.when(F.col("seq").isNotNull(), F.struct("commit_lsn", "topic"))).alias("first"),
        F.count_if(is_boundary & ~is_unreadable).alias("boundaries"),
        F.count_if(F.col("boundary.status") == "END").alias("ends"),
        F.min(F.when(is_unreadable, F.struct("partition", "offset"))).alias("unread"),
    ).collect()[0]
    return HeldBack(
        rows=found["rows"],
        has_new=bool(found["has_new"]),
        oldest_s=None if found["oldest_ms"] is None else found["oldest_ms"] / 1000,
        first=None if found["first"] is None else tuple(found["first"]),
        boundaries=found["boundaries"],
        ends=found["ends"],
        first_unreadable=None if found["unread"] is None else tuple(found["unread"]),
    )


def _incomplete(records: DataFrame, ended: DataFrame, tables: Mapping[str, str]) -> DataFrame:
    """The commits that lack events: commit_lsn, topic, events, and how many were received."""
    # A repeated end may count fewer events, as a record became a dead letter or a table was left out: the
    # last end counts. The transaction topic has one partition.
    last = ended.groupBy("commit_lsn").agg(F.max_by("data_collections", "offset").alias("counts"))
    counts = last.select("commit_lsn", F.explode("counts").alias("count")).select(
        "commit_lsn",
        F.try_element_at(_map(tables, "string"), F.col("count.data_collection")).alias("topic"),
        F.col("count.event_count").alias("events"),
    )
    expected = counts.where("topic IS NOT NULL")
    received = records.groupBy("commit_lsn", "topic").agg(F.count_distinct("seq").alias("received"))
    compared = expected.join(received, ["commit_lsn", "topic"], "left").na.fill(0, ["received"])
    return compared.where("received < events")


def _map(pairs: Mapping[str, Any], of: str) -> Expression:
    parts = F.create_map(*(F.lit(part) for pair in pairs.items() for part in pair))
    return parts.cast(f"map<string, {of}>")  # for an empty map, which has no type
