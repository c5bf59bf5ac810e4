"""Commits, pushes and workflows run the checks of .ci/run, on the Python versions that we support."""

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TEST_JOBS: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/test.yaml").read_text())["jobs"]


def make_targets(commands: str) -> set[str]:
    found = re.findall(r"^ *make ([a-z -]+)", commands, re.MULTILINE)
    return {target for line in found for target in line.split()}


def test_hooks_and_workflow_run_what_ci_runs() -> None:
    ci = make_targets((ROOT / ".ci/run").read_text())
    assert ci == {"lint", "types", "test", "test-compiled", "test-lowest", "guard", "packages"}
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert make_targets("\n".join(hook["entry"] for hook in hooks)) == ci
    steps = [step.get("run", "") for job in TEST_JOBS.values() for step in job["steps"]]
    assert make_targets("\n".join(steps)) == ci


def test_one_list_of_python_versions_holds_everywhere() -> None:
    tested: list[str] = TEST_JOBS["test"]["strategy"]["matrix"]["python"]
    named = [line.rpartition(" ")[2] for line in PYPROJECT["project"]["classifiers"] if ":: 3." in line]
    built = re.findall(r"cp3(\d+)-", PYPROJECT["tool"]["cibuildwheel"]["build"])
    assert tested == named == [f"3.{minor}" for minor in built]
    assert PYPROJECT["project"]["requires-python"] == f">={tested[0]}"
