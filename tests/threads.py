"""The threads of a process, librdkafka's among them; and what lives on only until a collection of cycles."""

import contextlib
import gc
import os
from collections.abc import Iterator
from pathlib import Path


def threads(pid: int | str = "self") -> set[str]:
    """The ids of those that a process has."""
    return set(os.listdir(f"/proc/{pid}/task"))


def librdkafka_threads() -> set[str]:
    """The ids of those of our threads that are librdkafka's, which names them so. Some may end meanwhile."""
    return {thread for thread, name in thread_names().items() if name.startswith("rdk:")}


def thread_names(pid: int | str = "self") -> dict[str, str]:
    """Those of the threads of a process by their ids, less threads that end just now."""
    names = {}
    for thread in threads(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            names[thread] = Path(f"/proc/{pid}/task/{thread}/comm").read_text()
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
