"""A port for a server that comes later, or comes back."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_port() -> Iterator[int]:
    """A port on 127.0.0.1 that nobody else is given meanwhile: bound, and never listened on here.

    Whoever sets SO_REUSEADDR, as servers do, can listen there, time and again.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
