"""The status server: the status page, /status, /metrics, /healthz and /readyz, in its own threads.

It does not run in the event loop, so that /healthz can report that the loop is stuck. The two share only
`Health` and the metrics, where each value is stored atomically or has its own lock, and the status, which has
one lock for everything.
"""

import json
import selectors
import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, Final, Self

import structlog

from pgrelay.metrics import Metrics
from pgrelay.status.exposition import CONTENT_TYPE, Exposition
from pgrelay.status.health import Health
from pgrelay.status.listening import address_family, listen_error
from pgrelay.status.page import Page

_log = structlog.get_logger(__name__)

_TEXT: Final = "text/plain; charset=utf-8"
_HTML: Final = "text/html; charset=utf-8"
_JSON: Final = "application/json"
_PATHS: Final = "/, /status, /metrics, /healthz and /readyz"
_CLIENT_TIMEOUT_S: Final = 10.0
# Each takes a thread and a file descriptor, of which the relay needs the rest.
_MAX_CLIENTS: Final = 32

Answer = tuple[HTTPStatus, str, bytes]


class StatusServer:
    """Serves while its `with` block runs."""

    def __init__(
        self,
        address: tuple[str, int],
        metrics: Metrics,
        health: Health,
        status: Callable[[], dict[str, Any]],
    ) -> None:
        """`address` is (host, port) as in `config.http.address`; port 0 means any free port.

        `status` returns the answer of /status; it is called from any thread.
        """
        self._address = address
        self._exposition = Exposition(metrics)
        self._health = health
        self._status = status
        self._page: Page
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Bind and serve. Raises SetupError if it can't listen on the address."""
        self._page = Page.load()
        self._server = _bind(self._address, self._answer, self._page.policy)
        self._thread = threading.Thread(target=self._server.serve, name="pgrelay-http", daemon=True)
        self._thread.start()
        _log.debug("status server listens", host=self._address[0], port=self.port)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None and self._thread is not None:
            self._server.stop()
            self._thread.join()
            self._server.server_close()
            self._server = self._thread = None

    @property
    def port(self) -> int:
        """The port of the running server; before that, the configured one."""
        return self._address[1] if self._server is None else int(self._server.server_address[1])

    def _answer(self, path: str) -> Answer:
        match path:
            case "/":
                return HTTPStatus.OK, _HTML, self._page.html
            case "/status":
                return HTTPStatus.OK, _JSON, json.dumps(self._status()).encode()
            case "/metrics":
                return HTTPStatus.OK, CONTENT_TYPE, self._exposition.render()
            case "/healthz":
                return self._healthz()
            case "/readyz":
                return self._readyz()
            case _:
                return _line(HTTPStatus.NOT_FOUND, f"not found; the paths are {_PATHS}")

    def _healthz(self) -> Answer:
        stuck_s = self._health.stuck_for_s()
        if stuck_s is None:
            return _line(HTTPStatus.OK, "working")
        return _line(HTTPStatus.SERVICE_UNAVAILABLE, f"stuck: the event loop has not run for {stuck_s:.0f} s")

    def _readyz(self) -> Answer:
        if self._health.stuck_for_s() is not None:
            return self._healthz()
        ready, reason = self._health.state
        return _line(HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE, reason)


def _line(status: HTTPStatus, text: str) -> Answer:
    return status, _TEXT, f"{text}\n".encode()


class _Server(socketserver.ThreadingTCPServer):
    # Not http.server's HTTPServer, which looks the host up in DNS when it binds; that can take seconds.
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = _MAX_CLIENTS
    # Don't wait for a client that gave up before it was served.
    timeout = 0

    def __init__(
        self,
        family: socket.AddressFamily,
        address: tuple[str, int],
        answer: Callable[[str], Answer],
        policy: str,
    ) -> None:
        self.address_family = family
        self.answer = answer
        self.policy = policy
        self._served: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        self._stopping, self._stopped = socket.socketpair()
        super().__init__(address, _Exchange)

    def serve(self) -> None:
        """Serve until `stop` is called. Unlike `serve_forever`, don't wake up to check for that."""
        with selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            selector.register(self._stopped, selectors.EVENT_READ)
            while all(key.fileobj is self for key, _ in selector.select()):
                self.handle_request()

    def stop(self) -> None:
        self._stopping.close()

    def server_close(self) -> None:
        super().server_close()
        self._stopping.close()
        self._stopped.close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve one more client. If there are too many, hang up on the one connected longest."""
        with self._lock:
            self._served[request] = None
            if len(self._served) > _MAX_CLIENTS:
                oldest = next(iter(self._served))
                del self._served[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._served.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Log a failed request at debug level: mostly, the client just hung up."""
        _log.debug("status request failed", client=str(client_address), exc_info=True)


class _Exchange(BaseHTTPRequestHandler):
    """One request and its answer."""

    timeout = _CLIENT_TIMEOUT_S
    server: _Server

    def do_GET(self) -> None:
        self.wfile.write(self._head())

    def do_HEAD(self) -> None:
        self._head()

    def _head(self) -> bytes:
        """Send the status and headers, and return the body that goes with them."""
        status, content_type, body = self.server.answer(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", self.server.policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        return body

    def version_string(self) -> str:
        return "pgrelay"

    def log_message(self, format: str, *args: object) -> None:
        _log.debug("status request", client=self.client_address[0], line=format % args)


def _bind(address: tuple[str, int], answer: Callable[[str], Answer], policy: str) -> _Server:
    host, port = address
    try:
        return _Server(address_family(host, port), address, answer, policy)
    except OSError as error:
        raise listen_error(host, port, error) from error
