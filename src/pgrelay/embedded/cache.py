"""The folder that keeps unpacked servers between runs; each is built completely or not at all."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pgrelay.errors import SetupError


def cache_folder() -> Path:
    """The folder, created if missing: `$XDG_CACHE_HOME/pgrelay` or `~/.cache/pgrelay`.

    For root it is /var/cache/pgrelay: Postgres won't run as root, and other accounts can't search root's
    home. Raises SetupError if it can't be created.
    """
    try:
        if os.geteuid() == 0:
            parent = Path("/var/cache")
        else:
            parent = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = parent / "pgrelay"
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o755)
    except (OSError, RuntimeError) as error:
        # Path.home raises RuntimeError for an account that is not set up, as in some containers.
        raise _unusable(error) from error
    return folder


@contextmanager
def cache_lock(name: str) -> Iterator[None]:
    """Hold the lock of this name, against other processes and other threads. Raises SetupError."""
    try:
        lock = (cache_folder() / f"{name}.lock").open("a")
    except OSError as error:
        raise _unusable(error) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _unusable(error: Exception) -> SetupError:
    cure = "let root write there" if os.geteuid() == 0 else "set XDG_CACHE_HOME to a writable folder"
    return SetupError(f"the cache folder can't be used: {error}; {cure}")


def cached(name: str, fill: Callable[[Path], None]) -> Path:
    """The cache's folder `name`, filled by `fill` if it does not exist yet; nobody ever sees it half filled.

    Raises SetupError if the cache is not writable.
    """
    folder = cache_folder()
    target = folder / name
    if target.exists():
        return target
    with cache_lock(name):
        if target.exists():
            return target
        partial = Path(tempfile.mkdtemp(dir=folder, prefix=f"{name}."))
        try:
            fill(partial)
            _make_searchable(partial)
            partial.rename(target)
        except BaseException:
            shutil.rmtree(partial)
            raise
    return target


def _make_searchable(tree: Path) -> None:
    """Let every account search the tree, whatever our umask is."""
    for folder, _, _ in os.walk(tree):
        os.chmod(folder, 0o755)
