"""Handwritten servers, for behaviour that a real server does not show on request."""

from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread


@contextmanager
def answering(connection: type[StreamRequestHandler]) -> Iterator[int]:
    """Run a server that handles each connection with `connection`; yield its port."""
    with ThreadingTCPServer(("127.0.0.1", 0), connection) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            # Otherwise a failing test would never end.
            server.shutdown()
            thread.join()
