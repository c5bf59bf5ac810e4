"""Servers that a test writes by hand, for what no real one does when asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread


@contextmanager
def answering(connection: type[StreamRequestHandler]) -> Iterator[int]:
    """The port of a server that answers each connection so."""
    with ThreadingTCPServer(("127.0.0.1", 0), connection) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            # Else a test that fails would never end.
            server.shutdown()
            thread.join()
