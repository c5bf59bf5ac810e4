"""The status page's content as text for a terminal."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import yaml

from pgrelay.config.defaults import without_defaults
from pgrelay.figures import age, ago, count, counted, duration, size
from pgrelay.printable import printable
from pgrelay.status.snapshot import Snapshot

Paint = Callable[[str, str], str]

_STATE_STYLES: Final = {"streaming": "green", "waiting": "yellow", "stuck": "red"}
_STYLES: Final = {"bold": "1", "dim": "2", "red": "1;31", "green": "32", "yellow": "33"}
_BARS: Final = "▁▂▃▄▅▆▇█"
_SPARK_WIDTH: Final = 60
_LABEL_WIDTH: Final = 12


def render(now: Snapshot, coloured: bool) -> str:
    """What the page shows, as lines of text; of the configuration only what is not the default."""
    paint = _coloured if coloured else _plain
    blocks = (
        _head(now, paint),
        _flow(now, paint),
        _figures(now),
        _tables(now, paint),
        _open(now, paint),
        _troubles(now, paint),
        _configuration(now, paint),
    )
    return "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks)


def _plain(_: str, text: str) -> str:
    return text


def _coloured(style: str, text: str) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def _head(now: Snapshot, paint: Paint) -> Iterator[str]:
    up = f"up {age(now.now_s - now.started_s)}"
    state = paint(_STATE_STYLES[now.state], now.state)
    yield f"{paint('bold', 'pgrelay')} {now.version}, slot {paint('bold', now.slot)}, {state}, {up}"
    if now.state != "streaming":
        yield f"{now.state}: {printable(now.reason)}"


def _flow(now: Snapshot, paint: Paint) -> Iterator[str]:
    """The four LSNs side by side, and between two of them the bytes by which the second is behind."""
    places = ("Postgres", "pgrelay", "Kafka", "back to Postgres")
    columns: list[tuple[str, str, str]] = []
    for place, stage in zip(places, now.stages, strict=True):
        if columns:
            behind = "?" if stage.behind_bytes is None else size(stage.behind_bytes)
            columns.append(("", f" ─ {behind} → ", ""))
        columns.append((place, stage.lsn or "not known", stage.name))
    widths = [max(map(len, column)) for column in columns]
    rows = [
        [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        for row in zip(*columns, strict=True)
    ]
    for row, style in zip(rows, ("bold", "", "dim"), strict=True):
        line = "".join(row).rstrip()
        yield paint(style, line) if style else line


def _figures(now: Snapshot) -> Iterator[str]:
    chart = now.chart
    yield _figure("lag", _lag(now))
    worst_s = max((lag_s for lag_s in chart.lag_s if lag_s is not None), default=None)
    worst = "not known" if worst_s is None else duration(worst_s)
    yield _figure("", f"{_spark(chart.lag_s)}  at worst {worst}")
    yield _figure("slot", _slot(now))
    rates = f"{count(now.records_per_s)} records/s, {count(now.transactions_per_s)} transactions/s"
    yield _figure("throughput", rates)
    yield _figure(
        "", f"{_spark(chart.records_per_s)}  at most {count(max(chart.records_per_s, default=0.0))}"
    )
    if now.latency_p50_s is None or now.latency_p99_s is None:
        yield _figure("latency", "no transaction in the last seconds")
    else:
        latency = f"half within {duration(now.latency_p50_s)}, 99 % within {duration(now.latency_p99_s)}"
        yield _figure("latency", latency)
    yield _figure("on the way", f"{counted(now.inflight_records, 'record')} that Kafka has not acknowledged")


def _lag(now: Snapshot) -> str:
    lag = "not known while nothing flows" if now.lag_s is None else duration(now.lag_s)
    return lag if now.lag_bytes is None else f"{lag}; {size(now.lag_bytes)} of WAL not confirmed"


def _slot(now: Snapshot) -> str:
    if now.retained_wal_bytes is None:
        return "WAL kept for it not known"
    if now.safe_wal_bytes is None:
        budget = "budget not known" if now.wal_limited is None else "no limit"
    else:
        budget = f"{size(now.safe_wal_bytes)} of budget left"
    return f"{size(now.retained_wal_bytes)} of WAL kept for it, {budget}"


def _figure(label: str, text: str) -> str:
    return f"{label:<{_LABEL_WIDTH}}{text}"


def _spark(values: Sequence[float | None]) -> str:
    """The values as bars, each the maximum of an equal share of the values; a gap if none is known."""
    if not values:
        return ""
    width = min(_SPARK_WIDTH, len(values))
    edges = [len(values) * i // width for i in range(width + 1)]
    shares = ([value for value in values[a:b] if value is not None] for a, b in itertools.pairwise(edges))
    tops = [max(share, default=None) for share in shares]
    most = max((top for top in tops if top is not None), default=0.0) or 1.0
    return "".join(" " if top is None else _bar(top / most) for top in tops)


def _bar(share: float) -> str:
    return _BARS[min(len(_BARS) - 1, int(share * len(_BARS)))]


def _tables(now: Snapshot, paint: Paint) -> Iterator[str]:
    rows = [(printable(table.name), count(table.per_s), count(table.records)) for table in now.tables]
    yield from _listed(("tables", "records/s", "since start"), rows, now.tables_total, "no record yet", paint)


def _open(now: Snapshot, paint: Paint) -> Iterator[str]:
    rows = [(str(one.xid), size(one.memory_bytes), size(one.disk_bytes)) for one in now.open]
    yield from _listed(("open transactions", "in memory", "on disk"), rows, now.open_total, "none", paint)
    free = "" if now.spool_free_bytes is None else f", {size(now.spool_free_bytes)} free there"
    limit = f"memory limit {size(now.memory_limit_bytes)}"
    yield f"{limit}; {size(now.spooled_bytes)} spilled to disk{free}"


def _listed(
    head: tuple[str, str, str], rows: list[tuple[str, str, str]], total: int, empty: str, paint: Paint
) -> Iterator[str]:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(3)]
    for row in (head, *rows):
        line = f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}"
        yield paint("bold", line) if row is head else line
    if not rows:
        yield empty
    if total > len(rows):
        yield f"and {total - len(rows):,} more"


def _troubles(now: Snapshot, paint: Paint) -> Iterator[str]:
    yield paint("bold", "last errors")
    for trouble in now.troubles:
        times = f", {trouble.count:,} times" if trouble.count > 1 else ""
        yield f"{printable(trouble.what)} ({ago(now.now_s - trouble.last_s)}{times})"
        yield f"  cure: {printable(trouble.cure)}"
    if not now.troubles:
        yield "none since the start"


def _configuration(now: Snapshot, paint: Paint) -> Iterator[str]:
    yield f"{paint('bold', 'configuration')}, without defaults, secrets masked"
    yield yaml.safe_dump(without_defaults(now.config), sort_keys=False, allow_unicode=True).rstrip()
