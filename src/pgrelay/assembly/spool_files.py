"""The files of the spool: 0600, in 0700 directories. Any OSError becomes a SpoolError that names the file."""

import contextlib
import errno
import fcntl
import os
from pathlib import Path
from typing import BinaryIO, Final

from pgrelay.errors import SpoolError

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})


def make_private(directory: Path) -> None:
    """Create a directory that only we may use, and likewise its missing parents."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
        # Not left to mkdir: the umask takes away bits of its mode.
        path.chmod(0o700)
        # For prepared transactions. A parent that we may write to but not read can't be synced.
        with contextlib.suppress(OSError):
            sync_directory(path.parent)
    if directory.is_symlink():
        # Where others may write, somebody may have planted it to have us delete files elsewhere.
        raise OSError(errno.ELOOP, "it is a symbolic link")
    directory.chmod(0o700)


def sync_directory(directory: Path) -> None:
    """Make durable what was created or renamed in a directory."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(directory: Path) -> int:
    """A descriptor whose lock keeps other relays out; it ends with the process at the latest.

    Raises SpoolError if a relay has the directory, or it can't be opened.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise spool_error(directory, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise SpoolError(
            f"{directory} is in use by another relay: a suspended one of this slot, or one of a slot with "
            "the same name on another server of the cluster; end it, or give one of them another "
            "transactions.spool_dir"
        ) from error
    except OSError:
        # A file system without locks, as some network file systems are: then nobody is kept out.
        pass
    return descriptor


def open_private(path: Path) -> BinaryIO:
    """A new file that only we may read; an existing one is emptied."""
    file = os.fdopen(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb")
    os.fchmod(file.fileno(), 0o600)
    return file


def files_ending(directory: Path, suffix: str) -> list[Path]:
    """The directory's files whose names end in `suffix`. Raises SpoolError if it can't be read."""
    try:
        # Not glob: to it, a directory that can't be read is an empty one.
        return [path for path in directory.iterdir() if path.name.endswith(suffix)]
    except OSError as error:
        raise spool_error(directory, error) from error


def remove_file(path: Path) -> None:
    """Delete a file, if it is there. Raises SpoolError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise spool_error(path, error) from error


def spool_error(path: Path, error: OSError) -> SpoolError:
    what = f"{path}: {error.strerror or error}"
    if error.errno in _NO_DESCRIPTOR:
        return SpoolError(f"{what}; raise the limit of open files (ulimit -n)")
    cure = "free space there" if error.errno in _NO_ROOM else "check that disk"
    return SpoolError(f"{what}; {cure}, or set transactions.spool_dir to another disk")
