"""The folder where unpacked servers are kept between runs, built whole or not at all."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pgrelay.errors import SetupError


def cache_folder() -> Path:
    """The folder, made where it is missing: `$XDG_CACHE_HOME/pgrelay`, `~/.cache/pgrelay`, or root's.

    Root's is /var/cache/pgrelay: Postgres won't run as root, and no other account can search root's home.
    Raises SetupError where it can't be made.
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
        # The latter, of Path.home, for an account that nobody has set up, as containers may run under.
        raise _not_ours(error) from error
    return folder


@contextmanager
def cache_lock(name: str) -> Iterator[None]:
    """Holds the lock of this name, against other processes and against this one. Raises SetupError."""
    try:
        lock = (cache_folder() / f"{name}.lock").open("a")
    except OSError as error:
        raise _not_ours(error) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _not_ours(error: Exception) -> SetupError:
    cure = "let root write there" if os.geteuid() == 0 else "set XDG_CACHE_HOME to a folder of ours"
    return SetupError(f"what is fetched can't be kept: {error}; {cure}")


def cached(name: str, fill: Callable[[Path], None]) -> Path:
    """The cache's folder `name`, filled by `fill` if it is not there yet; never seen half filled.

    Raises SetupError where nothing can be kept.
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
            _open(partial)
            partial.rename(target)
        except BaseException:
            shutil.rmtree(partial)
            raise
    return target


def _open(tree: Path) -> None:
    """Lets every account search the tree, whatever our umask is."""
    for folder, _, _ in os.walk(tree):
        os.chmod(folder, 0o755)
