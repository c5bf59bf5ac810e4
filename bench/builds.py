"""The checkout's two forms: compiled by the project's own build, and the same source, interpreted."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Literal

Form = Literal["compiled", "interpreted"]
FORMS: tuple[Form, ...] = ("compiled", "interpreted")

_ROOT = Path(__file__).parents[1]
_INPUTS = ("setup.py", "pyproject.toml", "README.md", "config.example.yaml", "src")
_BUILDS = _ROOT / "build" / "bench"
_MAIN = "import sys; from pgrelay.cli import main; sys.exit(main())"


def pgrelay(*arguments: str) -> list[str]:
    """A command line that runs pgrelay from the folder in PYTHONPATH."""
    return [sys.executable, "-c", _MAIN, *arguments]


def environment(form: Form) -> dict[str, str]:
    """The environment in which Python imports that form, built from the sources at the first call.

    Raises RuntimeError if it can't be built, or if the sources have changed since.
    """
    folder = _BUILDS / _initial_digest() / form
    if not folder.exists():
        _build(form, folder)
    return {**os.environ, "PYTHONPATH": str(folder)}


def _build(form: Form, folder: Path) -> None:
    # Build from a copy: it contains neither the leftovers of earlier builds in build/ nor later edits.
    with tempfile.TemporaryDirectory(prefix="pgrelay-build-") as temporary:
        source = Path(temporary, "source")
        target = Path(temporary, "target")
        source.mkdir()
        for name in _INPUTS:
            _copy(_ROOT / name, source / name)
        if _digest(source) != _initial_digest():
            raise RuntimeError("the sources changed since the first form was built; run it again")
        if form == "compiled":
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
            subprocess.run([*pip, str(target), str(source)], check=True)
        else:
            _copy(source / "src", target)
        output = subprocess.run(
            pgrelay("--version"),
            env={**os.environ, "PYTHONPATH": str(target)},
            cwd=temporary,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        if f"({form})" not in output:
            raise RuntimeError(
                f"{output.strip()} came from the build that should be {form}; is there a C compiler?"
            )
        _keep(target, folder)


def _keep(target: Path, folder: Path) -> None:
    for stale in _BUILDS.glob("*"):
        if stale != folder.parent:
            shutil.rmtree(stale)
    shutil.copytree(target, folder)


def _copy(path: Path, target: Path) -> None:
    if path.is_dir():
        shutil.copytree(path, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so"))
    else:
        shutil.copy(path, target)


@cache
def _initial_digest() -> str:
    return _digest(_ROOT)


def _digest(root: Path) -> str:
    digest = hashlib.sha256()
    for path in [root / "setup.py", *sorted((root / "src").rglob("*.py"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
