"""The threads of a process, librdkafka's among them; and what lives on only until a collection of cycles."""

import contextlib
import gc
import os
from collections.abc import Iterator


def threads(pid: int | str = "self") -> int:
    """How many a process has."""
    return len(os.listdir(f"/proc/{pid}/task"))


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Nothing that is in a cycle is freed meanwhile, as in a run, where collections are rare."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
