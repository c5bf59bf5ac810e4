"""The life of a server process, with shell scripts as servers."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from pgrelay.embedded.daemon import Daemon, ServerFailed, halt, log_tail, run_tool
from tests.halting import halted
from tests.integration.waiting import wait_until


@pytest.fixture
def daemon(tmp_path: Path) -> Daemon:
    return Daemon("Thing", tmp_path / "thing.log")


def _start(daemon: Daemon, script: str, *, timeout: float = 60.0) -> None:
    """Start the script; it is ready once it has written "up"."""

    def ready() -> bool:
        return "up" in daemon.log.read_text()

    daemon.start(["sh", "-c", script], ready=ready, timeout=timeout, cwd=daemon.log.parent)


def _never_ready(daemon: Daemon, script: str) -> None:
    """Start a script that is never ready; give up once it has written "hm"."""

    def ready() -> bool:
        wait_until(lambda: "hm" in daemon.log.read_text(), "the script's word")
        return False

    daemon.start(["sh", "-c", script], ready=ready, timeout=0.1, cwd=daemon.log.parent)


def test_starts_and_stops(daemon: Daemon) -> None:
    _start(daemon, "echo up; exec sleep 60")
    assert daemon.running
    assert daemon.exit_code is None
    daemon.stop(signal.SIGTERM, timeout=10)
    assert not daemon.running
    assert daemon.exit_code == -signal.SIGTERM
    daemon.stop(signal.SIGTERM, timeout=10)


def test_runs_in_its_own_session(daemon: Daemon) -> None:
    _start(daemon, "echo up; exec sleep 60")
    assert daemon.pid is not None
    assert os.getsid(daemon.pid) == daemon.pid != os.getsid(0)
    daemon.kill()


def test_is_not_started_twice(daemon: Daemon) -> None:
    _start(daemon, "echo up; exec sleep 60")
    with pytest.raises(ServerFailed, match="Thing is running already"):
        _start(daemon, "echo up")
    daemon.kill()


def test_the_error_for_an_early_end_shows_the_log(daemon: Daemon) -> None:
    with pytest.raises(ServerFailed, match=r"Thing did not start: exit code 3; .*\ncannot bind"):
        _start(daemon, "echo cannot bind >&2; exit 3")
    assert not daemon.running
    assert daemon.exit_code == 3


def test_the_error_for_no_answer_shows_the_log(daemon: Daemon) -> None:
    with pytest.raises(ServerFailed, match=r"Thing did not answer within 0\.1 s; .*\nhm"):
        _never_ready(daemon, "echo hm; exec sleep 60")
    assert not daemon.running


def test_a_process_that_ignores_sigterm_is_an_error(daemon: Daemon) -> None:
    _start(daemon, "trap '' TERM; echo up; while :; do sleep 60; done")
    with pytest.raises(ServerFailed, match=r"Thing did not stop within 0\.1 s of SIGTERM"):
        daemon.stop(signal.SIGTERM, timeout=0.1)
    assert daemon.pid is not None
    os.killpg(daemon.pid, signal.SIGKILL)
    daemon.kill()


def test_an_error_in_the_ready_check_stops_the_process(daemon: Daemon) -> None:
    def ready() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        daemon.start(["sleep", "60"], ready=ready, timeout=1, cwd=daemon.log.parent)
    assert not daemon.running


def test_a_failed_start_sends_the_given_signal(tmp_path: Path) -> None:
    daemon = Daemon("Thing", tmp_path / "thing.log", abort=signal.SIGUSR1)
    with pytest.raises(ServerFailed, match="did not answer"):
        _never_ready(daemon, "trap 'echo tidied; exit' USR1; echo hm; while :; do sleep 0.01; done")
    assert "tidied" in daemon.log.read_text()


def test_a_paused_process_is_halted_until_it_is_resumed(daemon: Daemon) -> None:
    _start(daemon, "echo up; while :; do :; done")
    assert daemon.pid is not None
    for _ in range(20):
        daemon.pause()
        assert halted(daemon.pid)
        daemon.resume()
        assert not halted(daemon.pid)
    daemon.kill()


def test_a_process_that_has_ended_can_not_be_paused(daemon: Daemon) -> None:
    with pytest.raises(ServerFailed, match="Thing is not running"):
        daemon.pause()
    _start(daemon, "echo up; exec sleep 60")
    daemon.kill()
    daemon.resume()
    with pytest.raises(ServerFailed, match="Thing is not running"):
        daemon.pause()


def test_a_process_that_ends_while_it_is_paused_keeps_its_exit_code() -> None:
    with subprocess.Popen(["sh", "-c", "exit 3"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b""
        assert not halt(process)
    assert process.returncode == 3


def test_log_tail_returns_the_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert "does not exist" in log_tail(log)
    log.touch()
    assert "is empty" in log_tail(log)
    log.write_bytes(b"\n".join(b"%d \xff" % number for number in range(100)))
    assert log_tail(log).splitlines()[0] == "80 \ufffd"


def test_the_error_for_a_failed_tool_shows_its_output(tmp_path: Path) -> None:
    run_tool(["sh", "-c", "exit 0"], cwd=tmp_path)
    with pytest.raises(ServerFailed, match=r"sh failed with exit code 3:\none\ntwo"):
        run_tool(["sh", "-c", "echo one; echo two >&2; exit 3"], cwd=tmp_path)


def test_an_interrupted_tool_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: subprocess.Popen[str]) -> None:
        assert self.stdout is not None
        self.stdout.readline()
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_tool(["sh", "-c", "(sleep 60; touch outlived) & echo $! > child; echo; wait"], cwd=tmp_path)
    child = Path("/proc") / (tmp_path / "child").read_text().strip()
    wait_until(lambda: _has_ended(child / "status"), "the child's end")


def _has_ended(status: Path) -> bool:
    try:
        return "State:\tZ" in status.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
