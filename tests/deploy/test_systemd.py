"""The systemd unit: checked by systemd-analyze, and whether it fits the relay. It is not started here."""

import re
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from itertools import pairwise
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


def test_systemd_analyze_finds_no_fault(service: dict[str, str], tmp_path: Path) -> None:
    """The program is replaced by ours."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    program, *_ = service["ExecStart"].split()
    here = tmp_path / "pgrelay@shop.service"
    here.write_text(UNIT.read_text().replace(program, str(Path(sys.executable).with_name("pgrelay"))))
    command = ["systemd-analyze", "verify", str(here)]
    verified = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert (verified.returncode, verified.stdout) == (0, "")


def test_the_stop_timeout_exceeds_the_relays_shutdown_grace(service: dict[str, str]) -> None:
    assert (
        float(service["TimeoutStopSec"].removesuffix("s"))
        >= SinkConfig.model_fields["shutdown_grace_s"].default + 5
    )


def test_exit_codes_that_no_restart_heals_prevent_one(service: dict[str, str]) -> None:
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"].split() == ["2", "3", "4"]


def test_the_documented_systemd_run_has_the_units_variables_and_user(service: dict[str, str]) -> None:
    """`reset` deletes the prepared transactions in the spool, so it must find them."""
    [command] = re.findall(
        r"^systemd-run (?:.*\\\n)*.*$", (ROOT / "docs/deploy.md").read_text(), re.MULTILINE
    )
    words = shlex.split(command)
    given = dict(after.split("=", 1) for word, after in pairwise(words) if word == "--property")
    names = ("EnvironmentFile", "Environment", "DynamicUser", "StateDirectory", "StateDirectoryMode")
    assert given == {name: service[name].replace("%i", "shop").replace("%S", "/var/lib") for name in names}
    program, _, *config = service["ExecStart"].replace("%i", "shop").split()
    assert words[-4:] == [program, "reset", *config]


def test_the_spool_is_in_the_state_directory(service: dict[str, str]) -> None:
    variable, _, folder = service["Environment"].partition("=")
    [override] = find_overrides({variable: folder}, Config)
    assert override.path == ("transactions", "spool_dir")
    assert folder == f"%S/{service['StateDirectory']}"
