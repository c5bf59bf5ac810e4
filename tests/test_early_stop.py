"""A signal that comes before the command handles signals: recorded at once, and never a traceback."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrelay.early_stop import SignalRecorder, active_recorder, defer_signals, preserve_sigint_handler

EXAMPLE = str(Path(__file__).parents[1] / "config.example.yaml")
BOTH = (signal.SIGTERM, signal.SIGINT)

# The program, with a signal sent to itself as soon as it begins to import a module. Python itself may have
# imported any but ours, to find an editable install.
PROGRAM = """
import os, sys
at, number = sys.argv.pop(1), int(sys.argv.pop(1))
sys.modules.pop(at, None)
class Signals:
    def find_spec(self, name, path, target=None):
        if name == at:
            os.kill(os.getpid(), number)
sys.meta_path.insert(0, Signals())
from pgrelay.__main__ import main
sys.exit(main())
"""


def signalled(
    number: signal.Signals, *arguments: str, at: str = "pgrelay.cli"
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, at, str(int(number)), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture
def recorder() -> Iterator[SignalRecorder]:
    recorder = SignalRecorder()
    yield recorder
    recorder.restore()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Another test of this process may have left SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", BOTH)
def test_the_first_signal_is_noted(recorder: SignalRecorder, number: signal.Signals) -> None:
    assert active_recorder() is recorder
    assert recorder.number == 0
    signal.raise_signal(number)
    signal.raise_signal(signal.SIGINT)
    assert recorder.number == number


@pytest.mark.usefixtures("interruptible")
def test_a_signal_is_held_back_until_the_block_has_ended_but_not_a_second_one() -> None:
    reached: list[str] = []

    def signalled_in_it(times: int) -> None:
        with defer_signals():
            for number in range(times):
                signal.raise_signal(signal.SIGINT)
                reached.append(f"after {number + 1} of {times}")

    for times in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            signalled_in_it(times)
    assert reached == ["after 1 of 1", "after 1 of 2"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_signal_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in BOTH]
    SignalRecorder().restore()
    assert [signal.getsignal(number) for number in BOTH] == before
    assert active_recorder() is None


@pytest.mark.parametrize("at", ["importlib.metadata", "pgrelay.cli"])
@pytest.mark.parametrize("number", BOTH)
def test_a_run_stopped_before_it_begins_ends_cleanly(number: signal.Signals, at: str, tmp_path: Path) -> None:
    path = tmp_path / "relay.yaml"
    path.write_text("source: {dsn: ''}\nsink: {kafka: {bootstrap.servers: a}}\nhttp: {listen: null}\n")
    done = signalled(number, "run", "--config", str(path), at=at)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "stopped" in done.stderr
    assert "confirmed" not in done.stderr


def test_a_mirror_stopped_before_it_begins_ends_cleanly(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    path = tmp_path / "mirror.yaml"
    path.write_text("kafka: {servers: a}\nlake: {warehouse: /lake, tables: {app.public.t: t}}\n")
    done = signalled(signal.SIGTERM, "spark-mirror", "--config", str(path))
    assert done.returncode == 0
    assert "stopped" in done.stderr
    assert "starting Spark" not in done.stderr
    cut = signalled(signal.SIGTERM, "spark-mirror", "--once", "--config", str(path))
    assert cut.returncode == 130
    assert "pgrelay: stopped before the targets had all that the topics hold: run it again" in cut.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("command", [["check", "--config", EXAMPLE], ["schema"], ["demo"]])
def test_other_commands_end_quietly(number: signal.Signals, code: int, command: list[str]) -> None:
    done = signalled(number, *command)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_a_programs_own_handler_stays_and_the_default_one_may_go(recorder: SignalRecorder) -> None:
    with preserve_sigint_handler():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is recorder
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with preserve_sigint_handler():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
