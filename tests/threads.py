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
    names = [name.read_text() for name in Path("/proc/self/task").glob("*/comm")]
    return sum(name.startswith("rdk:") for name in names)


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Nothing that is in a cycle is freed meanwhile, as in a run, where collections are rare."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
