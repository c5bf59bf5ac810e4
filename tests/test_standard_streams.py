"""Standard streams that are closed, full, or a pipe that nobody reads, as a shell sets them up."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = str(Path(__file__).parents[1] / "config.example.yaml")

# A run with a stub for the relay: it logs a line and ends.
RUN = """
import structlog, sys, types
async def run(config, advise):
    structlog.get_logger().info("starting")
    print(open("/dev/null").fileno())
sys.modules["pgrelay.check.advice"] = types.SimpleNamespace(advise=None)
sys.modules["pgrelay.relay"] = types.SimpleNamespace(run=run)
from pgrelay.cli import main
sys.exit(main(["run", "--config", sys.argv[1]]))
"""


def shell(redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments, and its streams redirected by a shell."""
    command = ["sh", "-c", f'exec "$0" "$@" {redirection}', sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("command", [["schema"], ["--version"]])
@pytest.mark.parametrize("stdout", [">&-", ">/dev/full"])
def test_an_unwritable_stdout_gives_no_traceback(stdout: str, command: list[str]) -> None:
    done = shell(stdout, "-m", "pgrelay", *command)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.parametrize(
    ("stdout", "why"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")]
)
def test_an_unwritable_result_is_one_line_and_exit_code_1(stdout: str, why: str) -> None:
    done = shell(stdout, "-m", "pgrelay", "schema")
    assert done.returncode == 1
    assert done.stderr == f"pgrelay: stdout can't be written: {why}; redirect it to where there is room\n"


def test_a_reader_that_closes_the_pipe_is_no_error() -> None:
    command = [sys.executable, "-m", "pgrelay", "schema"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_a_run_goes_on_without_a_log(stderr: str) -> None:
    assert shell(stderr, "-c", RUN, EXAMPLE).returncode == 0


def test_files_that_a_run_opens_never_replace_a_closed_stream() -> None:
    done = shell("<&- 2>&-", "-c", RUN, EXAMPLE)
    assert int(done.stdout) > 2


def test_programs_that_we_start_begin_with_no_closed_stream() -> None:
    code = (
        "import os, subprocess, sys; from pgrelay.standard_streams import reopen_closed_streams;"
        "reopen_closed_streams();"
        "sys.exit(subprocess.run([sys.executable, '-c', 'import os; os.fstat(1); os.fstat(2)']).returncode)"
    )
    assert shell("1>&- 2>&-", "-c", code).returncode == 0


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_a_mistake_with_an_unwritable_stderr_still_exits_with_2(stderr: str) -> None:
    done = shell(stderr, "-m", "pgrelay", "check", "--config", "/none.yaml")
    assert (done.returncode, done.stdout) == (2, "")


def test_a_character_that_the_locale_lacks_is_escaped() -> None:
    code = r"from pgrelay.standard_streams import *; reopen_closed_streams(); print_result('\u6ce8 and more')"
    done = shell("", "-X", "utf8=0", "-c", f"import sys; sys.stdout.reconfigure(encoding='ascii'); {code}")
    assert (done.stdout, done.returncode) == ("\\u6ce8 and more\n", 0)
