"""A port for a server that starts later, or restarts."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_port() -> Iterator[int]:
    """A port on 127.0.0.1 that nobody else gets meanwhile: it is bound here, but not listened on.

    A server that sets SO_REUSEADDR, as servers do, can listen on it repeatedly.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
