"""`make guard`: compare the instructions per row of the compiled pure half with the committed figures.

Valgrind's callgrind counts them, so the load of the machine does not matter. The figures hold for one tool
chain, which `bench/instructions.json` names beside them; `make guard ARGS=--renew` updates both. On another
tool chain, the sources of the commit with the figures are compiled there and counted for comparison.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from bench.counted import MARK, WORK

ROWS = 10_000
MAX_RATIO = 1.10

_ROOT = Path(__file__).parents[1]
_COMMITTED = _ROOT / "bench" / "instructions.json"
_RENEW = "make guard ARGS=--renew"

# Instructions per row, by format and shape.
Counts = dict[str, int]


class CannotCount(Exception):
    """One line: what is missing, and the cure."""


def versions() -> dict[str, str]:
    """The versions of everything that determines the machine code of the sources."""
    compiler = sysconfig.get_config_var("CC").split()[0]
    return {
        "python": f"{platform.python_version()} {platform.python_compiler()}",
        "mypyc": metadata.version("mypy"),
        "librt": metadata.version("librt"),
        "compiler": _first_line(os.environ.get("CC", compiler), "--version"),
        "libc": " ".join(platform.libc_ver()),
        "machine": platform.machine(),
    }


def _first_line(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[0]


def count(rows: int = ROWS, compiled: Path | None = None) -> Counts:
    """Count for the pgrelay in the folder `compiled`, else for the installed one. Raises CannotCount."""
    if shutil.which("valgrind") is None:
        raise CannotCount("valgrind is missing, which counts: apt-get install valgrind")
    path = {} if compiled is None else {"PYTHONPATH": str(compiled)}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "counts")
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", f"--dump-before={MARK}"]
        command = [*valgrind, sys.executable, "-m", "bench.counted", str(rows)]
        environment = {**os.environ, "PYTHONHASHSEED": "0", **path}
        ran = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True)
        if ran.returncode != 0:
            raise CannotCount(f"{' '.join(command)}: {ran.stderr.strip().splitlines()[-1]}")
        # Every second count ends at a second mark: it is that of the work between two marks.
        return {
            f"{format} {shape}": _summary(out.with_suffix(f".{2 * number + 2}")) // rows
            for number, (format, shape) in enumerate(WORK)
        }


def _summary(dump: Path) -> int:
    for line in dump.read_text().splitlines():
        if line.startswith("summary: "):
            return int(line.split()[1])
    raise CannotCount(f"callgrind wrote no summary to {dump.name}")


def counted_here(committed: Mapping[str, str], here: Mapping[str, str]) -> Counts:
    """The counts of the committed sources on this tool chain, a different one. Raises CannotCount."""
    for name, version in here.items():
        if committed.get(name) != version:
            print(f"committed with {name} {committed.get(name)}, here {version}")
    commit = last_renewed()
    print(f"so what was committed is compiled here: {commit}", flush=True)
    return counted_at(commit)


def counted_at(commit: str) -> Counts:
    """The counts of a commit's sources, compiled with the local tools. Raises CannotCount."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source"), Path(folder, "target")
        source.mkdir()
        inputs = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "config.example.yaml", "src")
        archive = ["git", "archive", commit, *inputs]
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
        try:
            tar = subprocess.run(archive, cwd=_ROOT, check=True, capture_output=True).stdout
            subprocess.run(["tar", "-x", "-C", source], input=tar, check=True)
            subprocess.run([*pip, "--target", str(target), str(source)], check=True)
        except subprocess.CalledProcessError as error:
            raise CannotCount(f"the sources of {commit} can't be compiled here: {error}") from None
        return count(compiled=target)


def last_renewed() -> str:
    """The commit that last changed the figures. Raises CannotCount."""
    log = ["git", "log", "-1", "--format=%H", "--", str(_COMMITTED)]
    ran = subprocess.run(log, cwd=_ROOT, capture_output=True, text=True)
    if not ran.stdout.strip():
        raise CannotCount(f"git does not know which commit {_COMMITTED.name} is of; fetch the whole history")
    return ran.stdout.strip()


def compare(found: Counts, wanted: Mapping[str, int]) -> list[str]:
    """Print the table; return the names whose counts are too high."""
    print(f"{'instructions a row':<20}{'committed':>10}{'now':>10}")
    for name, now in found.items():
        print(f"{name:<20}{wanted[name]:>10,}{now:>10,}{now / wanted[name]:>9.3f}")
    return [name for name, now in found.items() if now > MAX_RATIO * wanted[name]]


def renew() -> None:
    figures = {"versions": versions(), "instructions": count()}
    _COMMITTED.write_text(json.dumps(figures, indent=2) + "\n")
    print(_COMMITTED.read_text(), end="")


def check() -> bool:
    found, here = count(), versions()
    committed = json.loads(_COMMITTED.read_text())
    wanted: Counts = committed["instructions"]
    if committed["versions"] != here:
        try:
            wanted = counted_here(committed["versions"], here)
        except CannotCount as error:
            print(f"NOT CHECKED, this tool chain being another one: {error}", file=sys.stderr)
            return True
    too_high = compare(found, wanted)
    if too_high:
        print(f"over {MAX_RATIO:.2f} of what is committed: {', '.join(too_high)}", file=sys.stderr)
        print(f"make them cheaper, or say in a commit why not: {_RENEW}", file=sys.stderr)
    return not too_high


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.guard", description=__doc__, epilog=f"example: {_RENEW}"
    )
    parser.add_argument("--renew", action="store_true", help=f"write what is counted to {_COMMITTED.name}")
    try:
        if parser.parse_args().renew:
            renew()
            return 0
        return 0 if check() else 1
    except CannotCount as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
