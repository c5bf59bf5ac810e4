"""The threads of a process, also librdkafka's; and objects that live only until a collection of cycles."""

import contextlib
import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path


def threads(pid: int | str = "self") -> set[str]:
    """The ids of a process's threads."""
    return set(os.listdir(f"/proc/{pid}/task"))


def librdkafka_threads() -> set[str]:
    """The ids of librdkafka's threads in this process, found by their names. Some may end meanwhile."""
    return {thread for thread, name in thread_names().items() if name.startswith("rdk:")}


def thread_names(pid: int | str = "self") -> dict[str, str]:
    """The names of a process's threads by id, without threads that are just ending."""
    names = {}
    for thread in threads(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            names[thread] = Path(f"/proc/{pid}/task/{thread}/comm").read_text()
    return names


@contextlib.contextmanager
def threads_joined() -> Iterator[None]:
    """Wait at the end for the Python threads begun in the block: they might log into the next test."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=20)
        assert not thread.is_alive(), thread


@contextlib.contextmanager
def gc_disabled() -> Iterator[None]:
    """No reference cycle is freed during the block, as in a run, where collections are rare."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
