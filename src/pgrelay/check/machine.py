"""This machine: disk space for transactions that spill, and the status server's address."""

import os
import shutil
import socket
import tempfile
from errno import EADDRINUSE, ENOSPC
from pathlib import Path
from typing import Final

from pgrelay.assembly.spool_base import CURE, base_directory, why_not_ours
from pgrelay.check.findings import Finding, error, ok, warning
from pgrelay.config import Config
from pgrelay.figures import size
from pgrelay.status import listening

_LOW_SPACE: Final = 1 << 30


def machine_findings(config: Config) -> list[Finding]:
    base = base_directory(config.transactions.spool_dir)
    why = why_not_ours(config.transactions.spool_dir)
    findings = [spool_directory(base) if why is None else error(f"spool directory {base}", why, CURE)]
    findings += spool_not_persistent(config)
    address = config.http.address
    return findings if address is None else [*findings, listen_address(*address)]


def spool_directory(directory: Path) -> Finding:
    """A run creates `directory`, so its nearest existing parent must be a directory that we may write to."""
    place = f"spool directory {directory}"
    parent = _nearest_existing(directory)
    if not parent.is_dir():
        return error(
            f"{place} can't be created", f"{parent} is a file", "set transactions.spool_dir to another place"
        )
    if (reason := _unwritable(parent)) is not None:
        cure = f"let uid {os.getuid()} write there, or set transactions.spool_dir to another place"
        return error(f"{place} is not writable", f"no directory can be created in {parent}: {reason}", cure)
    free = shutil.disk_usage(parent).free
    if free >= _LOW_SPACE:
        return ok(f"{place}: {size(free)} are free")
    return warning(
        f"{place}: only {size(free)} are free",
        "transactions above transactions.memory_mb spill there; when the disk is full the relay pauses",
        "free space there, or set transactions.spool_dir to another disk",
    )


def spool_not_persistent(config: Config) -> list[Finding]:
    """Prepared transactions must stay in the spool across restarts."""
    if not config.source.two_phase or config.transactions.spool_dir is not None:
        return []
    return [
        warning(
            "source.two_phase is on and transactions.spool_dir is null",
            "prepared transactions must survive restarts, but the system's temporary directory may not",
            "set transactions.spool_dir to a directory on a persistent disk",
        )
    ]


def _unwritable(directory: Path) -> str | None:
    """Create a directory where a run would, and remove it: permission bits miss /proc or a mount."""
    try:
        Path(tempfile.mkdtemp(prefix=".pgrelay-check-", dir=directory)).rmdir()
    except OSError as failure:
        # A full disk is covered by the finding about free space.
        return None if failure.errno == ENOSPC else failure.strerror
    return None


def _nearest_existing(path: Path) -> Path:
    """The path, or its nearest parent that exists, as far as we may see."""
    path = path.absolute()
    # Not Path.exists: it raises for a path in a directory that we may not search.
    return next(each for each in (path, *path.parents) if os.path.exists(each))


def listen_address(host: str, port: int) -> Finding:
    """Bind the status server's address, and release it."""
    at = f"http.listen: {listening.format_address(host, port)}"
    try:
        with socket.socket(listening.address_family(host, port), socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as failure:
        if failure.errno == EADDRINUSE:
            return warning(
                f"{at} is in use",
                "fine if this relay runs and uses it; if another program does, a run can't start",
                f"stop the other program, or {listening.CURE}",
                expected_in_run=True,
            )
        return error(f"{at} can't be listened on", failure.strerror or str(failure), listening.CURE)
    return ok(f"{at} is free")
