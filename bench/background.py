"""Work in the background of a measurement."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def in_background(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `work` in a thread for the block. The block's end sets the event, and waits for the work to end."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
