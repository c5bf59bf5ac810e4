"""The systemd unit: what systemd itself finds in it, and that it fits the relay. It is not started here."""

import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from pgrelay.config import Config
from pgrelay.config.environment import find_overrides
from pgrelay.config.model import SinkConfig
from tests.deploy.compose import ROOT

UNIT = ROOT / "deploy/systemd/pgrelay@.service"


@pytest.fixture
def service() -> dict[str, str]:
    parser = ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return dict(parser["Service"])


def test_systemd_finds_nothing(service: dict[str, str], tmp_path: Path) -> None:
    """But for the program, which is ours here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    program, *_ = service["ExecStart"].split()
    here = tmp_path / "pgrelay@shop.service"
    here.write_text(UNIT.read_text().replace(program, str(Path(sys.executable).with_name("pgrelay"))))
    command = ["systemd-analyze", "verify", str(here)]
    verified = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert (verified.returncode, verified.stdout) == (0, "")


def test_it_is_given_longer_than_the_relay_takes_to_drain(service: dict[str, str]) -> None:
    assert (
        float(service["TimeoutStopSec"].removesuffix("s"))
        >= SinkConfig.model_fields["shutdown_grace_s"].default + 5
    )


def test_what_no_restart_heals_is_not_restarted(service: dict[str, str]) -> None:
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"].split() == ["2", "3", "4"]


def test_the_spool_is_in_the_folder_that_systemd_makes(service: dict[str, str]) -> None:
    variable, _, folder = service["Environment"].partition("=")
    [override] = find_overrides({variable: folder}, Config)
    assert override.path == ("transactions", "spool_dir")
    assert folder == f"%S/{service['StateDirectory']}"
