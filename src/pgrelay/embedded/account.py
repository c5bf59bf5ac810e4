"""The account that a server runs under (`nobody` if we are root: Postgres refuses root), and its folder."""

import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgrelay.errors import SetupError


@dataclass(frozen=True, slots=True)
class Account:
    """A user to run a server under. None in place of an Account means our own."""

    uid: int
    gid: int

    def chown(self, folder: Path) -> None:
        """Give the folder to this account. Raises SetupError if the account can't reach it."""
        if closed := unsearchable_parent(folder):
            raise SetupError(
                f"{folder}: under root Postgres runs as `nobody`, who can't search {closed}; use another one"
            )
        os.chown(folder, self.uid, self.gid)


def server_account() -> Account | None:
    """`nobody` if we are root, else None."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return Account(nobody.pw_uid, nobody.pw_gid)


def spawn_options(account: Account | None) -> dict[str, Any]:
    """The arguments that make `subprocess` run a command under the account."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def unsearchable_parent(path: Path) -> Path | None:
    """The nearest folder above `path` that other users can't search, or None."""
    for parent in path.resolve().parents:
        if not parent.stat().st_mode & stat.S_IXOTH:
            return parent
    return None


@contextmanager
def server_folder(given: Path | None, name: str, account: Account | None = None) -> Iterator[Path]:
    """A server's folder: the given one, created if missing, or one that is deleted after the block."""
    folder = Path(tempfile.mkdtemp(prefix=f"pgrelay-{name}-")) if given is None else given
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if account is not None:
            account.chown(folder)
        yield folder
    finally:
        if given is None:
            shutil.rmtree(folder)
