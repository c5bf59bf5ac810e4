"""The systemd unit: what systemd itself finds in it, and that it fits the relay. It is not started here."""

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


def test_a_command_beside_it_has_its_variables_its_spool_and_its_user(service: dict[str, str]) -> None:
    """`reset` deletes the prepared transactions of the spool, so it must find them."""
    [command] = re.findall(
        r"^systemd-run (?:.*\\\n)*.*$", (ROOT / "docs/deploy.md").read_text(), re.MULTILINE
    )
    words = shlex.split(command)
    given = dict(after.split("=", 1) for word, after in pairwise(words) if word == "--property")
    names = ("EnvironmentFile", "Environment", "DynamicUser", "StateDirectory", "StateDirectoryMode")
    assert given == {name: service[name].replace("%i", "shop").replace("%S", "/var/lib") for name in names}
    program, _, *config = service["ExecStart"].replace("%i", "shop").split()
    assert words[-4:] == [program, "reset", *config]


def test_the_spool_is_in_the_folder_that_systemd_makes(service: dict[str, str]) -> None:
    variable, _, folder = service["Environment"].partition("=")
    [override] = find_overrides({variable: folder}, Config)
    assert override.path == ("transactions", "spool_dir")
    assert folder == f"%S/{service['StateDirectory']}"
