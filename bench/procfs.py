"""Processes and the machine, as Linux reports them. CPU is in seconds, memory in MB of 1,000,000 bytes."""

import os
from collections.abc import Mapping
from pathlib import Path

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


def cpu_s(pid: int) -> float:
    """User and system time of all threads, including ended ones. FileNotFoundError if the process is gone."""
    return _cpu_s(_PROC / str(pid) / "stat")


def thread_cpu_s(pid: int) -> dict[str, float]:
    """CPU of the current threads, summed by name."""
    spent: dict[str, float] = {}
    for task in (_PROC / str(pid) / "task").iterdir():
        try:
            name = (task / "comm").read_text().strip()
            spent[name] = spent.get(name, 0.0) + _cpu_s(task / "stat")
        except (FileNotFoundError, ProcessLookupError):  # the thread has just ended
            continue
    return spent


def _cpu_s(stat: Path) -> float:
    # The name, in parentheses, may contain anything; utime and stime are the 12th and 13th fields after it.
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND


def memory_mb(pid: int, field: str) -> float:
    """`VmRSS` is the current resident size, `VmHWM` its peak. 0 if the process has ended."""
    for line in (_PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def wakeups(pid: int) -> int:
    """How often the current threads have begun to wait."""
    count = 0
    for task in (_PROC / str(pid) / "task").iterdir():
        try:
            status = (task / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):  # the thread has just ended
            continue
        count += int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return count


def busy_s() -> float:
    """CPU that everything used since boot, on all cores, including time stolen by the hypervisor."""
    fields = (_PROC / "stat").read_text().splitlines()[0].split()[1:9]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields)
    return (user + nice + system + irq + softirq + steal) / _TICKS_A_SECOND


def child_running(word: str) -> int:
    """The child of this process that has `word` among its arguments. Raises LookupError."""
    for task in (_PROC / "self" / "task").iterdir():
        for pid in (task / "children").read_text().split():
            if word in (_PROC / pid / "cmdline").read_text().split("\0"):
                return int(pid)
    raise LookupError(f"no child of this process runs {word}")


def spark_java() -> int:
    """Spark's Java process, which this one has started. Raises LookupError."""
    return child_running("org.apache.spark.deploy.SparkSubmit")


class Meter:
    """CPU of some processes since the meter was created, by given name, and the peak RSS of each."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = dict(pids)
        self._from = {name: cpu_s(pid) for name, pid in self._pids.items()}
        self._busy_from = busy_s()
        self.cpu_s = dict.fromkeys(self._pids, 0.0)
        self.peak_mb = dict.fromkeys(self._pids, 0.0)
        self.others_s = 0.0

    def read(self) -> None:
        """Read again; a process that has ended keeps its last values."""
        for name, pid in self._pids.items():
            try:
                self.cpu_s[name] = cpu_s(pid) - self._from[name]
                self.peak_mb[name] = max(self.peak_mb[name], memory_mb(pid, "VmHWM"))
            except (FileNotFoundError, ProcessLookupError):
                continue
        self.others_s = busy_s() - self._busy_from - sum(self.cpu_s.values())
