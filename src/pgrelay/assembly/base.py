"""Whose the directory is that all relays of this account keep their spools in, where none is configured."""

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from pgrelay.assembly.spool import base_directory
from pgrelay.errors import SetupError

OWN_BASE: Final = "remove it, or set transactions.spool_dir to a directory that is ours"


def foreign(configured: Path | None) -> str | None:
    """Why the directory may be another account's work; None where it is ours alone, or not there.

    One that is configured may well be another's, such as a volume: who may write there, its owner decides.
    """
    if configured is not None:
        return None
    base = base_directory(None)
    try:
        found = base.lstat()
    except OSError:
        # Who wants to use it is told why it can't be made.
        return None
    others = found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if others or not stat.S_ISDIR(found.st_mode):
        return f"{base} is not a directory that only we can write to, so another account may have made it"
    return None


def require_own_base(configured: Path | None) -> None:
    """Make the directory if it is missing, and see that nobody else can write there. Raises SetupError.

    Its name can be guessed: whoever was there before us could lead us to files of ours that are no spool's.
    """
    if configured is None:
        base = base_directory(None)
        with contextlib.suppress(OSError):
            base.mkdir(mode=0o700)
            # Not left to mkdir: it takes away what the umask says.
            base.chmod(0o700)
    if (why := foreign(configured)) is not None:
        raise SetupError(f"{why}: {OWN_BASE}")
