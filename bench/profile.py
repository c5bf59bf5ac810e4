"""`make profile`: where a row's CPU goes: the pure half in both forms, the threads of a drain, and symbols.

The symbols come from Linux's perf, if it is installed: compiled code appears as CPyDef_*, the interpreter as
_PyEval_EvalFrameDefault. Without perf, cProfile shows the interpreted pure half by function instead.
"""

import argparse
import cProfile
import pstats
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench import pure
from bench.builds import FORMS
from bench.contenders import relay
from bench.drain import Run, drain
from bench.procfs import thread_cpu_s
from bench.stage import loaded, servers
from bench.topics import Topics
from bench.workloads import WORKLOADS, Workload, named

_SYMBOLS = 40


class Probe:
    """Watches one relay: its threads' CPU at the last call, and perf, which runs from the first call on."""

    def __init__(self, data: Path) -> None:
        self.threads: dict[str, float] = {}
        self._data = data
        self._perf: subprocess.Popen[bytes] | None = None

    def __call__(self, pid: int) -> None:
        if self._perf is None and shutil.which("perf"):
            record = ["perf", "record", "-F", "999", "-o", str(self._data), "-p", str(pid)]
            self._perf = subprocess.Popen(record, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.threads = thread_cpu_s(pid)

    def symbols(self) -> str:
        """perf's report, once the relay has ended; empty without perf."""
        if self._perf is None:
            return ""
        self._perf.wait()
        report = ["perf", "report", "-i", str(self._data), "--stdio", "--sort", "comm,dso,symbol"]
        output = subprocess.run(report, capture_output=True, text=True).stdout.splitlines()
        lines = [" ".join(line.split()[:6]) for line in output if line.strip() and not line.startswith("#")]
        return "\n".join(lines[:_SYMBOLS])


def profiled(workload: Workload, folder: Path) -> tuple[Run, Probe]:
    contender = relay("compiled")
    probe = Probe(folder / "perf.data")
    with ExitStack() as stack:
        stage = stack.enter_context(servers(folder))
        load = stack.enter_context(loaded(stage, workload))
        topics = stack.enter_context(Topics(stage.bootstrap, contender.prefix, workload.tables))
        drain(stage, load, contender, topics)
        return drain(stage, load, contender, topics, probe), probe


def print_pure(shapes: list[str], rows: int) -> None:
    print("the pure half, us of CPU a row")
    for form in FORMS:
        found = pure.in_form(form, shapes, rows)
        print(f"  {form:<14}" + "  ".join(f"{shape} {us:.2f}" for shape, us in found.items()))


def print_threads(run: Run, probe: Probe) -> None:
    print(f"\none drain, {run.workload}, us of CPU a row; others used {run.others_cores:.2f} cores")
    for name in ("walsender", "contender", "broker"):
        print(f"  {name:<14}{run.cpu_s[name] / run.rows * 1e6:>6.2f}")
    for name, seconds in sorted(probe.threads.items(), key=lambda thread: -thread[1]):
        print(f"    {name:<16}{seconds / run.rows * 1e6:>6.2f}  (start included)")


def print_functions(shape: str, rows: int) -> None:
    """Print the CPU of the interpreted pure half by function."""
    work = pure.transactions(shape, rows)
    profile = cProfile.Profile()
    with tempfile.TemporaryDirectory() as folder:
        profile.runcall(pure.encode, work, Path(folder))
    pstats.Stats(profile).sort_stats("tottime").print_stats(_SYMBOLS // 2)


def main() -> int:
    names = [workload.name for workload in WORKLOADS]
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument("--workload", default="insert", choices=names, help="to drain (%(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="its rows, over what is usual (%(default)s)")
    parser.add_argument("--rows", type=int, default=50_000, help="of each pure shape (%(default)s)")
    options = parser.parse_args()
    print_pure(list(pure.SHAPES), options.rows)
    with tempfile.TemporaryDirectory(prefix="pgrelay-bench-") as folder:
        run, probe = profiled(named(options.workload).scaled(options.scale), Path(folder))
        if run.void:
            print(f"VOID: {run.void}")
            return 1
        print_threads(run, probe)
        symbols = probe.symbols()
    if symbols:
        print(f"\nits {_SYMBOLS} dearest symbols\n{symbols}")
    else:
        print_functions("insert", options.rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
