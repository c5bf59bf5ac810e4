"""The folder where unpacked servers are kept between runs, built whole or not at all."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """The folder, made where it is missing: `$XDG_CACHE_HOME/pgrelay`, `~/.cache/pgrelay`, or root's.

    Root's is /var/cache/pgrelay: Postgres won't run as root, and no other account can search root's home.
    """
    if os.geteuid() == 0:
        parent = Path("/var/cache")
    else:
        parent = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = parent / "pgrelay"
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
    return folder


@contextmanager
def cache_lock(name: str) -> Iterator[None]:
    """Holds the lock of this name, against other processes and against this one."""
    with (cache_folder() / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def cached(name: str, fill: Callable[[Path], None]) -> Path:
    """The cache's folder `name`, filled by `fill` if it is not there yet; never seen half filled."""
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
