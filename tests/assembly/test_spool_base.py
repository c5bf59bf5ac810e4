"""The default directory of spools, whose name anybody can guess."""

import os
import stat
from pathlib import Path

import pytest

from pgrelay.assembly.spool_base import base_directory, require_own_base
from pgrelay.errors import SetupError


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where it will be; it does not exist yet."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    return base_directory(None)


@pytest.mark.parametrize("umask", [0o000, 0o177], ids=["open", "closed"])
def test_it_is_made_private_and_accepted_the_next_time(base: Path, umask: int) -> None:
    before = os.umask(umask)
    require_own_base(None)
    os.umask(before)
    assert stat.S_IMODE(base.stat().st_mode) == 0o700
    require_own_base(None)


def test_a_link_is_refused_even_to_our_own_directory(base: Path, tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir(mode=0o700)
    base.symlink_to(tmp_path / "ours")
    with pytest.raises(SetupError, match=r"^/.*: remove it, or set transactions\.spool_dir to"):
        require_own_base(None)


@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_a_directory_that_others_can_write_to_is_refused(base: Path, mode: int) -> None:
    base.mkdir()
    base.chmod(mode)
    with pytest.raises(SetupError):
        require_own_base(None)


def test_a_directory_of_another_account_is_refused(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base.mkdir(mode=0o755)
    ours = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: ours + 1)
    with pytest.raises(SetupError):
        require_own_base(None)


def test_a_file_in_its_place_is_refused(base: Path) -> None:
    base.write_bytes(b"")
    with pytest.raises(SetupError):
        require_own_base(None)


def test_a_directory_that_can_not_be_made_is_no_error_here(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/proc/self")
    require_own_base(None)


def test_without_a_usable_temporary_directory_tmpdir_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr("tempfile.gettempdir", full)
    monkeypatch.setenv("TMPDIR", "/full")
    assert base_directory(None).parent == Path("/full")
    monkeypatch.delenv("TMPDIR")
    assert base_directory(None).parent == Path("/tmp")


def test_a_configured_directory_may_belong_to_another_account(tmp_path: Path) -> None:
    """As a volume is."""
    tmp_path.chmod(0o777)
    require_own_base(tmp_path)
