"""The proxy against an echo server: what each fault looks like from the client's side."""

import contextlib
import gc
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.integration.proxy import Proxy
from tests.integration.waiting import wait_until

_PATIENCE = 30  # seconds, for everything that arrives


def _echo(listener: socket.socket) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # the test is over
            return
        with connection:
            try:
                while data := connection.recv(1000):
                    connection.sendall(data)
            except ConnectionResetError:
                continue


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_echo, args=(listener,))
        thread.start()
        with Proxy(listener.getsockname()[1]) as proxy:
            yield proxy
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with _connect(proxy) as client:
        yield client


def _connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=_PATIENCE)


def _nothing_arrives(client: socket.socket) -> bool:
    client.settimeout(0.1)
    try:
        client.recv(1)
    except TimeoutError:
        return True
    finally:
        client.settimeout(_PATIENCE)
    return False


def test_bytes_are_forwarded_both_ways(client: socket.socket) -> None:
    client.sendall(b"hello")
    assert client.recv(100) == b"hello"


def test_latency_delays_request_and_reply(proxy: Proxy, client: socket.socket) -> None:
    proxy.latency = 0.05
    began = time.monotonic()
    client.sendall(b"hello")
    assert client.recv(100) == b"hello"
    assert time.monotonic() - began >= 0.1


@pytest.mark.parametrize("direction", ["requests", "replies"])
def test_held_bytes_arrive_after_release(proxy: Proxy, client: socket.socket, direction: str) -> None:
    getattr(proxy, f"hold_{direction}")()
    client.sendall(b"hello")
    assert _nothing_arrives(client)
    proxy.release()
    assert client.recv(100) == b"hello"


def test_a_reply_held_until_its_connection_ends_is_lost(proxy: Proxy) -> None:
    proxy.hold_replies()
    with _connect(proxy) as client:
        client.sendall(b"lost")
        assert _nothing_arrives(client)
    wait_until(lambda: proxy.connections == 0, "the proxy to see the connection's end")
    proxy.release()
    with _connect(proxy) as client:
        client.sendall(b"found")
        assert client.recv(100) == b"found"


def test_reset_ends_connections_and_accepts_new_ones(proxy: Proxy, client: socket.socket) -> None:
    client.sendall(b"hello")
    assert client.recv(100) == b"hello"
    proxy.reset()
    with pytest.raises(ConnectionResetError):
        client.recv(100)
    with _connect(proxy) as again:
        again.sendall(b"hello")
        assert again.recv(100) == b"hello"


def test_reset_ends_held_connections_too(proxy: Proxy, client: socket.socket) -> None:
    proxy.hold_requests()
    client.sendall(b"hello")
    wait_until(lambda: proxy.connections == 1, "the connection")
    proxy.reset()
    with pytest.raises(ConnectionResetError):
        client.recv(100)


def test_connections_are_refused_until_release(proxy: Proxy) -> None:
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        _connect(proxy)
    proxy.release()
    with _connect(proxy) as client:
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"


def test_an_absent_target_looks_like_a_reset() -> None:
    nobody = 1  # a port on which no server ever listens
    with Proxy(nobody) as proxy, pytest.raises(ConnectionResetError), _connect(proxy) as client:
        client.recv(1)


def test_ending_during_new_connections_leaves_none_open(proxy: Proxy) -> None:
    for _ in range(10):
        with contextlib.ExitStack() as clients, Proxy(proxy.target) as ending:
            for _ in range(30):
                clients.enter_context(_connect(ending))
    gc.collect()  # a socket that was left open warns, which is an error here


def test_replies_are_lost_by_what_the_client_sent_first(proxy: Proxy) -> None:
    with _connect(proxy) as stream:
        stream.sendall(b"replication")
        assert stream.recv(100)
        proxy.loses_replies_to = b"replication"
        stream.sendall(b"lost")
        assert _nothing_arrives(stream)
    with _connect(proxy) as query:
        query.sendall(b"query")
        assert query.recv(100) == b"query"
    proxy.release()
    with _connect(proxy) as stream:
        stream.sendall(b"replication")
        assert stream.recv(100) == b"replication"
