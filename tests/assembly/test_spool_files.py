"""The spool's directories are ours alone, and what fails there is an error that names it."""

import errno
import os
import stat
from pathlib import Path

import pytest

from pgrelay.assembly.spool_files import files_ending, make_private, remove_file, spool_error
from pgrelay.errors import SpoolError, Verdict, verdict


def test_a_directory_readable_by_others_is_made_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_private(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_missing_parent_directories_are_made(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_made_directories_are_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a crashed machine may lose what was prepared and confirmed, with the directory that has it."""
    synced = set[int]()
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.add(os.fstat(descriptor).st_ino))
    make_private(tmp_path / "new" / "slot")
    assert synced == {tmp_path.stat().st_ino, (tmp_path / "new").stat().st_ino}


def test_a_file_that_can_not_be_removed_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", read_only)
    with pytest.raises(SpoolError, match=r"/700\.spool: Read-only file system; check that disk") as caught:
        remove_file(tmp_path / "700.spool")
    assert verdict(caught.value) is Verdict.RETRY


def test_a_directory_that_can_not_be_read_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "spool").touch()
    with pytest.raises(SpoolError, match="/spool: Not a directory; check that disk"):
        files_ending(tmp_path / "spool", ".spool")


def test_a_lack_of_descriptors_is_not_blamed_on_the_disk() -> None:
    error = spool_error(Path("700.spool"), OSError(errno.EMFILE, "Too many open files"))
    assert str(error) == "700.spool: Too many open files; raise the limit of open files (ulimit -n)"
