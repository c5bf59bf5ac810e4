"""The status server, queried over real sockets."""

import selectors
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest
import structlog

from pgrelay.errors import SetupError
from pgrelay.metrics import Metrics
from pgrelay.status.health import Health
from pgrelay.status.http import StatusServer
from tests.threads import threads_joined


class Clock:
    """Seconds that stand still until a test sets them."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    return Health(clock)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def server(metrics: Metrics, health: Health) -> Iterator[StatusServer]:
    with threads_joined(), StatusServer(("127.0.0.1", 0), metrics, health, tell) as running:
        yield running


def tell() -> dict[str, Any]:
    return {"slot": "shop"}


def ask(server: StatusServer, path: str, method: str = "GET", host: str = "127.0.0.1") -> tuple[int, str]:
    """The status and the body of one request."""
    connection = HTTPConnection(host, server.port, timeout=10)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_healthz_is_200_while_the_loop_turns(server: StatusServer) -> None:
    assert ask(server, "/healthz") == (200, "working\n")


def test_healthz_is_200_while_the_stream_waits(server: StatusServer, health: Health) -> None:
    health.set_waiting("Kafka is away; trying again in 5 s")
    assert ask(server, "/healthz") == (200, "working\n")


def test_healthz_is_503_while_the_loop_is_stuck(server: StatusServer, health: Health, clock: Clock) -> None:
    clock.now_s += 9.9
    assert ask(server, "/healthz") == (200, "working\n")
    clock.now_s += 2
    assert ask(server, "/healthz") == (503, "stuck: the event loop has not run for 12 s\n")
    health.beat()
    assert ask(server, "/healthz") == (200, "working\n")


def test_readyz_is_503_before_the_stream_flows(server: StatusServer, health: Health) -> None:
    assert not health.ready
    assert ask(server, "/readyz") == (503, "starting\n")


def test_readyz_is_200_while_the_stream_flows(server: StatusServer, health: Health) -> None:
    health.set_streaming()
    assert health.ready
    assert ask(server, "/readyz") == (200, "streaming\n")


def test_readyz_names_what_is_waited_for(server: StatusServer, health: Health) -> None:
    health.set_streaming()
    health.set_waiting("waiting for slot pgrelay: active for PID 77")
    assert not health.ready
    assert ask(server, "/readyz") == (503, "waiting for slot pgrelay: active for PID 77\n")


def test_readyz_is_503_while_the_loop_is_stuck(server: StatusServer, health: Health, clock: Clock) -> None:
    health.set_streaming()
    clock.now_s += 10
    assert ask(server, "/readyz") == (503, "stuck: the event loop has not run for 10 s\n")


def test_metrics_are_served(server: StatusServer, metrics: Metrics) -> None:
    metrics.add_records("public.orders", "c", 3)
    status, body = ask(server, "/metrics")
    assert status == 200
    assert 'pgrelay_records_total{op="c",table="public.orders"} 3.0' in body


def test_metrics_name_their_format(server: StatusServer) -> None:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", "/metrics")
    response = connection.getresponse()
    response.read()
    connection.close()
    assert (response.getheader("Content-Type") or "").startswith("text/plain; version=")
    assert response.getheader("Server") == "pgrelay"


def test_a_query_string_is_ignored(server: StatusServer) -> None:
    assert ask(server, "/healthz?verbose=1") == (200, "working\n")


def test_another_path_lists_the_existing_ones(server: StatusServer) -> None:
    text = "not found; the paths are /, /status, /metrics, /healthz and /readyz\n"
    assert ask(server, "/favicon.ico") == (404, text)


def test_the_status_is_json(server: StatusServer) -> None:
    assert ask(server, "/status") == (200, '{"slot": "shop"}')


def test_the_page_loads_nothing_from_elsewhere(server: StatusServer) -> None:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", "/")
    response = connection.getresponse()
    page = response.read().decode()
    connection.close()
    assert page.startswith("<!doctype html>")
    assert "page.css" not in page
    assert "page.js" not in page
    assert (response.getheader("Content-Security-Policy") or "").startswith("default-src 'none'; ")
    assert response.getheader("Cache-Control") == "no-store"


def test_head_has_no_body(server: StatusServer) -> None:
    assert ask(server, "/healthz", "HEAD") == (200, "")


def test_other_methods_are_refused(server: StatusServer) -> None:
    assert ask(server, "/healthz", "POST")[0] == 501


def test_a_slow_client_does_not_delay_others(server: StatusServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as slow:
        slow.sendall(b"GET /healthz")
        assert ask(server, "/healthz") == (200, "working\n")


def test_clients_that_stay_give_way_to_new_ones(server: StatusServer) -> None:
    """Each takes one of the process's files, and the connections to the servers are files too."""
    crowd = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(100)]
    for client in crowd:
        client.sendall(b"GET /healthz")
    assert ask(server, "/healthz") == (200, "working\n")
    assert [client.recv(1) for client in crowd[:60]] == [b""] * 60
    for client in crowd:
        client.close()


def test_requests_are_logged_only_at_debug(server: StatusServer) -> None:
    with structlog.testing.capture_logs() as entries:
        ask(server, "/healthz")
        ask(server, "/nowhere")
    assert entries
    assert {entry["log_level"] for entry in entries} == {"debug"}


def test_nothing_is_written_outside_of_the_log(
    server: StatusServer, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    with structlog.testing.capture_logs():
        ask(server, "/healthz")
        ask(server, "/healthz", "POST")
    assert capfd.readouterr() == ("", "")


def test_an_ipv6_address_can_be_listened_on(metrics: Metrics, health: Health) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    with StatusServer(("::1", 0), metrics, health, tell) as server:
        assert ask(server, "/healthz", host="::1") == (200, "working\n")


def test_an_ipv6_address_that_is_taken_is_in_brackets(metrics: Metrics, health: Health) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    with (
        StatusServer(("::1", 0), metrics, health, tell) as server,
        pytest.raises(SetupError, match=rf"can't listen on \[::1\]:{server.port}: "),
        StatusServer(("::1", server.port), metrics, health, tell),
    ):
        pass


def test_a_port_in_use_is_one_line_with_the_cure(
    server: StatusServer, metrics: Metrics, health: Health
) -> None:
    second = StatusServer(("127.0.0.1", server.port), metrics, health, tell)
    with pytest.raises(SetupError) as caught, second:
        pass
    assert str(caught.value) == (
        f"http.listen: can't listen on 127.0.0.1:{server.port}: Address already in use; "
        "stop the relay or program that listens there, choose another host:port, or null to turn it off"
    )


def test_a_host_that_does_not_exist_is_a_setup_error(metrics: Metrics, health: Health) -> None:
    with pytest.raises(SetupError, match=r"^http.listen: can't listen on no.invalid:80: "):
        StatusServer(("no.invalid", 80), metrics, health, tell).__enter__()


def test_a_new_server_does_not_listen_yet(metrics: Metrics, health: Health) -> None:
    assert StatusServer(("127.0.0.1", 8080), metrics, health, tell).port == 8080


def test_it_sleeps_while_nobody_asks(
    metrics: Metrics, health: Health, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine may run many relays that have little to do."""
    waits: list[float | None] = []
    select = selectors.DefaultSelector.select

    def waited(selector: selectors.DefaultSelector, timeout: float | None = None) -> Any:
        waits.append(timeout)
        return select(selector, timeout)

    monkeypatch.setattr(selectors.DefaultSelector, "select", waited)
    with StatusServer(("127.0.0.1", 0), metrics, health, tell) as server:
        ask(server, "/healthz")
    assert waits == [None, None]


def test_leaving_the_server_frees_its_port_and_thread(metrics: Metrics, health: Health) -> None:
    with StatusServer(("127.0.0.1", 0), metrics, health, tell) as server:
        port = server.port
    with StatusServer(("127.0.0.1", port), metrics, health, tell):
        pass
    assert all(thread.name != "pgrelay-http" for thread in threading.enumerate())
