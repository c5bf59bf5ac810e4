"""Whose the directory is that all relays of this account keep their spools in, where none is configured."""

import contextlib
import os
import stat
from pathlib import Path

from pgrelay.assembly.spool import base_directory
from pgrelay.errors import SetupError


def require_own_base(configured: Path | None) -> None:
    """Make the directory if it is missing, and see that nobody else can write there. Raises SetupError.

    Its name can be guessed: whoever was there before us could lead us to files of ours that are no spool's.
    One that is configured may well be another's, such as a volume: who may write there, its owner decides.
    """
    if configured is not None:
        return
    base = base_directory(None)
    try:
        with contextlib.suppress(FileExistsError):
            base.mkdir(mode=0o700)
            # Not left to mkdir: it takes away what the umask says.
            base.chmod(0o700)
        found = base.lstat()
    except OSError:
        # It is not there then, and who wants to use it is told why it can't be made.
        return
    others = found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if others or not stat.S_ISDIR(found.st_mode):
        raise SetupError(
            f"{base} is not a directory that only we can write to, so another account may have made it: "
            "remove it, or set transactions.spool_dir to a directory that is ours"
        )
