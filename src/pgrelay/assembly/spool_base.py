"""Where spools are kept: by default in the system's temporary directory, which must then be ours alone."""

import contextlib
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from pgrelay.errors import SetupError

CURE: Final = "remove it, or set transactions.spool_dir to a directory that we own"


def base_directory(configured: Path | None) -> Path:
    """The directory for the spool directories of all relays of this account."""
    return configured or Path(_temp_directory(), f"pgrelay-{os.getuid()}")


def _temp_directory() -> str:
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        # gettempdir tries to write, which fails on a full disk: creating the spool reports what is wrong.
        return os.environ.get("TMPDIR") or "/tmp"


def slot_directory(configured: Path | None, systemid: str, slot: str) -> Path:
    """A slot's own directory in the base directory, so that relays may share a disk."""
    return base_directory(configured) / f"{systemid}-{slot}"


def why_not_ours(configured: Path | None) -> str | None:
    """Why another account may have made the directory; None if it is ours alone, missing, or configured.

    A configured one, such as a volume, may well belong to another account: its owner decides who may write
    there.
    """
    if configured is not None:
        return None
    base = base_directory(None)
    try:
        found = base.lstat()
    except OSError:
        # Missing or inaccessible: creating the spool reports why it can't be created.
        return None
    others = found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if others or not stat.S_ISDIR(found.st_mode):
        return f"{base} is not a directory that only we can write to, so another account may have created it"
    return None


def require_own_base(configured: Path | None) -> None:
    """Create the directory if it is missing, and check that nobody else can write there. Raises SetupError.

    Its name can be guessed, so whoever made it before us could plant a link that has us delete our own files.
    """
    if configured is None:
        base = base_directory(None)
        with contextlib.suppress(OSError):
            base.mkdir(mode=0o700)
            # Not left to mkdir: the umask takes away bits of its mode.
            base.chmod(0o700)
    if (why := why_not_ours(configured)) is not None:
        raise SetupError(f"{why}: {CURE}")
