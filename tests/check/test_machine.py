"""The spool's directory and the status server's address."""

import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from pgrelay.assembly.spool import base_directory
from pgrelay.assembly.spool_base import CURE
from pgrelay.check import machine
from pgrelay.check.findings import Finding
from pgrelay.check.machine import listen, machine_findings, outlived, spool
from pgrelay.config import Config, SinkConfig, SourceConfig, Transactions


def test_a_directory_to_be_made_is_not_made(tmp_path: Path) -> None:
    assert spool(tmp_path / "a" / "b").level == "ok"
    assert not (tmp_path / "a").exists()


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    finding = spool(tmp_path / "a" / "b")
    assert (finding.level, finding.why) == ("error", f"{tmp_path / 'a'} is a file")


def test_a_directory_that_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(**_: object) -> str:
        raise PermissionError(13, "Permission denied")

    # The superuser, whom tests may run as, is let in everywhere.
    monkeypatch.setattr(tempfile, "mkdtemp", denied)
    finding = spool(tmp_path)
    assert finding.level == "error"
    assert finding.why == f"no directory can be created in {tmp_path}: Permission denied"
    assert "transactions.spool_dir" in finding.cure


def test_a_directory_in_one_that_we_may_not_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked, hidden = os.stat, tmp_path / "hidden"

    def stat(path: Any, *arguments: Any, **more: Any) -> os.stat_result:
        if path == hidden:
            raise PermissionError(13, "Permission denied")
        return looked(path, *arguments, **more)

    # The superuser, whom tests may run as, may search them all.
    monkeypatch.setattr(os, "stat", stat)
    finding = spool(hidden)
    assert finding.level == "ok"
    assert finding.what.startswith(f"spool directory {hidden}: ")


def test_a_default_directory_that_others_can_write_to(
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
def test_a_place_where_nothing_can_be_made() -> None:
    assert spool(Path("/proc/nope")).level == "error"


def test_a_directory_is_left_as_it_was(tmp_path: Path) -> None:
    assert spool(tmp_path).level == "ok"
    assert list(tmp_path.iterdir()) == []


def test_prepared_transactions_want_a_directory_that_lasts(tmp_path: Path) -> None:
    def findings(two_phase: bool, spool_dir: Path | None) -> list[Finding]:
        return outlived(
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


def test_little_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_LITTLE", 1 << 62)
    finding = spool(tmp_path)
    assert finding.level == "warning"
    assert "are free" in finding.what


def test_an_address_that_is_free() -> None:
    assert listen("127.0.0.1", 0).level == "ok"


def test_an_address_in_use_is_a_warning_since_this_relay_may_run() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        finding = listen("127.0.0.1", taken.getsockname()[1])
    assert finding.level == "warning"
    assert finding.what.endswith("is in use")


@pytest.mark.parametrize("host", ["192.0.2.1", "host.invalid"])
def test_an_address_that_is_not_ours(host: str) -> None:
    assert listen(host, 8080).level == "error"
