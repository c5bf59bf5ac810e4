"""The spool's directory and the status server's address."""

import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from pgrelay.assembly.spool_base import CURE, base_directory
from pgrelay.check import machine
from pgrelay.check.findings import Finding
from pgrelay.check.machine import listen_address, machine_findings, spool_directory, spool_not_persistent
from pgrelay.config import Config, SinkConfig, SourceConfig, Transactions


def test_a_check_does_not_create_the_directory(tmp_path: Path) -> None:
    assert spool_directory(tmp_path / "a" / "b").level == "ok"
    assert not (tmp_path / "a").exists()


def test_a_file_in_the_directorys_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    finding = spool_directory(tmp_path / "a" / "b")
    assert (finding.level, finding.why) == ("error", f"{tmp_path / 'a'} is a file")


def test_a_directory_without_write_permission_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(**_: object) -> str:
        raise PermissionError(13, "Permission denied")

    # Tests may run as root, who may write everywhere.
    monkeypatch.setattr(tempfile, "mkdtemp", denied)
    finding = spool_directory(tmp_path)
    assert finding.level == "error"
    assert finding.why == f"no directory can be created in {tmp_path}: Permission denied"
    assert "transactions.spool_dir" in finding.cure


def test_a_directory_below_an_unsearchable_one_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, hidden = os.stat, tmp_path / "hidden"

    def stat(path: Any, *arguments: Any, **more: Any) -> os.stat_result:
        if path == hidden:
            raise PermissionError(13, "Permission denied")
        return looked(path, *arguments, **more)

    # Tests may run as root, who may search any directory.
    monkeypatch.setattr(os, "stat", stat)
    finding = spool_directory(hidden)
    assert finding.level == "ok"
    assert finding.what.startswith(f"spool directory {hidden}: ")


def test_a_default_directory_that_others_can_write_to_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    base = base_directory(None)
    base.mkdir()
    base.chmod(0o777)
    config = {"source": {"dsn": ""}, "sink": {"kafka": {"bootstrap.servers": "a"}}, "http": {"listen": None}}
    (finding,) = machine_findings(Config.model_validate(config))
    assert (finding.level, finding.cure) == ("error", CURE)
    config["transactions"] = {"spool_dir": str(base)}
    (finding,) = machine_findings(Config.model_validate(config))
    assert finding.level == "ok"


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
def test_a_directory_that_can_not_be_created_is_an_error() -> None:
    assert spool_directory(Path("/proc/nope")).level == "error"


def test_a_check_leaves_the_directory_unchanged(tmp_path: Path) -> None:
    assert spool_directory(tmp_path).level == "ok"
    assert list(tmp_path.iterdir()) == []


def test_with_two_phase_a_temporary_directory_is_a_warning(tmp_path: Path) -> None:
    def findings(two_phase: bool, spool_dir: Path | None) -> list[Finding]:
        return spool_not_persistent(
            Config(
                source=SourceConfig(dsn="", two_phase=two_phase),
                sink=SinkConfig(kafka={"bootstrap.servers": "a"}),
                transactions=Transactions(spool_dir=spool_dir),
            )
        )

    (finding,) = findings(True, None)
    assert finding.level == "warning"
    assert "transactions.spool_dir" in finding.cure
    assert findings(True, tmp_path) == findings(False, None) == []


def test_little_free_space_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_LOW_SPACE", 1 << 62)
    finding = spool_directory(tmp_path)
    assert finding.level == "warning"
    assert "are free" in finding.what


def test_a_free_address_is_ok() -> None:
    assert listen_address("127.0.0.1", 0).level == "ok"


def test_an_address_in_use_is_only_a_warning() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        finding = listen_address("127.0.0.1", taken.getsockname()[1])
    assert finding.level == "warning"
    assert finding.what.endswith("is in use")


@pytest.mark.parametrize("host", ["192.0.2.1", "host.invalid"])
def test_an_address_of_another_machine_is_an_error(host: str) -> None:
    assert listen_address(host, 8080).level == "error"


def test_an_ipv6_address_is_written_as_in_the_configuration() -> None:
    assert listen_address("2001:db8::1", 8080).what == "http.listen: [2001:db8::1]:8080 can't be listened on"
