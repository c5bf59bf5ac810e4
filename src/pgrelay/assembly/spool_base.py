"""Who owns the directory under the system's temporary one that holds the spools if none is configured."""

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from pgrelay.assembly.spool import base_directory
from pgrelay.errors import SetupError

CURE: Final = "remove it, or set transactions.spool_dir to a directory that is ours"


def why_not_ours(configured: Path | None) -> str | None:
    """Why the directory may be another account's doing; None if it is ours alone, missing, or configured.

    A configured one may well belong to another account, such as a volume: who may write there is its owner's
    decision.
    """
    if configured is not None:
        return None
    base = base_directory(None)
    try:
        found = base.lstat()
    except OSError:
        # Missing, or not to be looked at: whoever makes the spool says why it can't be made.
        return None
    others = found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if others or not stat.S_ISDIR(found.st_mode):
        return f"{base} is not a directory that only we can write to, so another account may have made it"
    return None


def require_own_base(configured: Path | None) -> None:
    """Make the directory if it is missing, and check that nobody else can write there. Raises SetupError.

    Its name can be guessed, so whoever made it before us could have us delete files of ours by a link in it.
    """
    if configured is None:
        base = base_directory(None)
        with contextlib.suppress(OSError):
            base.mkdir(mode=0o700)
            # Not left to mkdir: it takes away what the umask says.
            base.chmod(0o700)
    if (why := why_not_ours(configured)) is not None:
        raise SetupError(f"{why}: {CURE}")
