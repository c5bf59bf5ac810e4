"""The results of the runs: medians, spreads and ratios, as a table and as JSON."""

import json
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.drain import Run
from bench.stage import Load
from pgrelay.embedded.kafka_jars import KAFKA_VERSION

# If the rest of the machine used more cores than this, the figures must not be quoted.
BUSY_CORES = 0.15

_REFERENCE = "pg_recvlogical"

_HEADINGS = (
    f"{'contender':<22}{'rows/s':>10}  {'least-most':<16}{'ratio':>6}{'bound':>7}"
    f"{'walsender':>11}{'contender':>11}{'broker':>8}{'RSS MB':>8}{'others':>8}"
)


@dataclass(frozen=True, slots=True)
class Summary:
    """Medians over one contender's good runs. `ratio` is to pg_recvlogical in the same round; `bound` is the
    rate divided by what the walsender could send on a core of its own (rows divided by its CPU)."""

    contender: str
    rate: float
    least: float
    most: float
    ratio: float | None
    bound: float
    us_a_row: dict[str, float]
    peak_mb: float
    others_cores: float
    void: int


def summarise(rounds: Sequence[Sequence[Run]]) -> list[Summary]:
    """A summary for each contender that has a good run, in the order of the first round."""
    names = dict.fromkeys(run.contender for runs in rounds for run in runs)
    summaries = (_summary(name, rounds) for name in names)
    return [summary for summary in summaries if summary is not None]


def _summary(name: str, rounds: Sequence[Sequence[Run]]) -> Summary | None:
    all_runs = [run for runs in rounds for run in runs if run.contender == name]
    good = [run for run in all_runs if not run.void]
    if not good:
        return None
    rates = [run.rows / run.seconds for run in good]
    ratios = [ratio for runs in rounds if (ratio := _ratio(name, runs)) is not None]
    return Summary(
        name,
        median(rates),
        min(rates),
        max(rates),
        median(ratios) if ratios else None,
        median(run.cpu_s["walsender"] / run.seconds for run in good),
        {who: median(run.cpu_s[who] / run.rows * 1e6 for run in good) for who in good[0].cpu_s},
        median(run.peak_mb["contender"] for run in good),
        median(run.others_cores for run in good),
        len(all_runs) - len(good),
    )


def _ratio(name: str, runs: Sequence[Run]) -> float | None:
    good = {run.contender: run for run in runs if not run.void}
    if name not in good or _REFERENCE not in good:
        return None
    return good[_REFERENCE].seconds / good[name].seconds


def print_table(load: Load, rounds: Sequence[Sequence[Run]]) -> None:
    work = load.workload
    wal_a_row = load.wal_bytes / work.rows
    print(f"\n{work.name}: {work.what}; {work.rows:,} rows, {wal_a_row:,.0f} bytes of WAL a row")
    print(f"{'':54}{'':7}{'-- CPU us a row --':>30}")
    print(_HEADINGS)
    for summary in summarise(rounds):
        print(_line(summary))
    for run in (run for runs in rounds for run in runs if run.void):
        print(f"VOID {run.contender}: {run.void}")
    _print_doubts(rounds)


def _line(summary: Summary) -> str:
    spread = f"{summary.least:,.0f}-{summary.most:,.0f}"
    ratio = "" if summary.ratio is None else f"{summary.ratio:.2f}"
    cpu = summary.us_a_row
    return (
        f"{summary.contender:<22}{summary.rate:>10,.0f}  {spread:<16}{ratio:>6}{summary.bound:>7.2f}"
        f"{cpu['walsender']:>11.2f}{cpu['contender']:>11.2f}{cpu['broker']:>8.2f}{summary.peak_mb:>8.0f}"
        f"{summary.others_cores:>8.2f}"
    )


def _print_doubts(rounds: Sequence[Sequence[Run]]) -> None:
    runs = [run for runs in rounds for run in runs]
    loads = f"{min(run.load_before for run in runs):.1f} to {max(run.load_after for run in runs):.1f}"
    others = [run.others_cores for run in runs if not run.void]
    busy = f"; TOO BUSY: do not quote these (others used up to {max(others):.2f} cores)"
    print(f"load average {loads}{busy if others and max(others) > BUSY_CORES else ''}")


def as_json(load: Load, rounds: Sequence[Sequence[Run]]) -> dict[str, object]:
    return {
        "workload": load.workload.name,
        "what": load.workload.what,
        "rows": load.workload.rows,
        "wal_bytes": load.wal_bytes,
        "summaries": [asdict(summary) for summary in summarise(rounds)],
        "rounds": [[asdict(run) for run in runs] for runs in rounds],
    }


def write_results(path: Path, workloads: list[dict[str, object]], postgres_version: str) -> None:
    about = {
        "machine": platform.platform(),
        "processor": _processor(),
        "python": platform.python_version(),
        "postgres": postgres_version,
        "kafka": KAFKA_VERSION,
        "revision": _git("describe", "--always", "--dirty"),
        "busy_above_cores": BUSY_CORES,
    }
    path.write_text(json.dumps({**about, "workloads": workloads}, indent=2) + "\n")


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(models)} x {models[0]}" if models else platform.machine()


def _git(*arguments: str) -> str:
    folder = Path(__file__).parent
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True).stdout.strip()
