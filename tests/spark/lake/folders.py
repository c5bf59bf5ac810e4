"""Where tables have their files in a warehouse."""

import os
from datetime import timedelta
from pathlib import Path


def log_of(warehouse: Path, target: str) -> Path:
    """The folder of a Delta table's log."""
    database, _, name = target.partition(".")
    return warehouse / f"{database}.db" / name / "_delta_log"


def age(folder: Path, by: timedelta) -> None:
    """Make the folder's files older."""
    for file in folder.iterdir():
        at = file.stat().st_mtime - by.total_seconds()
        os.utime(file, (at, at))
