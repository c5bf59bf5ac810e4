"""The threads of a process, librdkafka's among them; and what lives on only until a collection of cycles."""

import contextlib
import gc
import os
from collections.abc import Iterator
from pathlib import Path


def threads(pid: int | str = "self") -> int:
    """How many a process has."""
    return len(os.listdir(f"/proc/{pid}/task"))


def librdkafka_threads() -> int:
    """How many of our threads are librdkafka's, which names them so."""
    return sum(name.startswith("rdk:") for name in thread_names())


def thread_names(pid: int | str = "self") -> list[str]:
    """Of the threads of a process, less those that end just now."""
    names = []
    for file in Path(f"/proc/{pid}/task").glob("*/comm"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            names.append(file.read_text())
    return names


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Nothing that is in a cycle is freed meanwhile, as in a run, where collections are rare."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
