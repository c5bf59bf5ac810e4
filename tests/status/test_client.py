"""Querying a relay that runs, that does not run, or that is another one."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import structlog
import yaml

from pgrelay.cli import main
from pgrelay.config import StatusEndpoint
from pgrelay.errors import SetupError
from pgrelay.status.client import ask
from pgrelay.status.http import StatusServer
from tests.status.relays import PASSWORD, RelayStub


def listening_at(listen: str | None, slot: str = "shop") -> StatusEndpoint:
    return StatusEndpoint.model_validate({"source": {"slot": slot}, "http": {"listen": listen}})


def file_of(folder: Path, listen: str) -> str:
    path = folder / "relay.yaml"
    dsn = f"postgresql://app:{PASSWORD}@db.internal/shop"
    sections = {"source": {"dsn": dsn, "slot": "shop"}, "http": {"listen": listen}}
    path.write_text(yaml.safe_dump({**sections, "sink": {"kafka": {"bootstrap.servers": "localhost:9092"}}}))
    return str(path)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_running_relay_answers(host: str) -> None:
    with RelayStub().served() as server:
        assert ask(listening_at(f"{host}:{server.port}"), "relay.yaml")["slot"] == "shop"


def test_the_command_prints_the_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    relay = RelayStub()
    relay.health.set_streaming()
    # structlog prints to stdout unless it is configured.
    with relay.served() as server, structlog.testing.capture_logs():
        assert main(["status", "--config", file_of(tmp_path, f"127.0.0.1:{server.port}")]) == 0
        assert "slot shop, streaming, up 0 s" in capsys.readouterr().out
        assert main(["status", "--config", file_of(tmp_path, f"127.0.0.1:{server.port}"), "--json"]) == 0
        printed = capsys.readouterr().out
    assert json.loads(printed)["state"] == "streaming"
    assert PASSWORD not in printed


def test_the_command_needs_none_of_the_relays_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "relay.yaml"
    monkeypatch.setenv("PGRELAY_SOURCE__SLOT", "shop")
    relay = RelayStub()
    relay.health.set_streaming()
    with relay.served() as server, structlog.testing.capture_logs():
        file.write_text(
            "source: {dsn: '${NOT_SET_HERE}', slot: other}\n"
            "sink: {kafka: {bootstrap.servers: 'k:9092', sasl.password: '${NOT_SET_HERE}'}}\n"
            f"http: {{listen: '127.0.0.1:{server.port}'}}\n"
        )
        assert main(["status", "--config", str(file)]) == 0


def test_without_a_relay_the_command_is_one_line_and_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = 1  # on which no server ever listens
    file = file_of(tmp_path, f"127.0.0.1:{port}")
    assert main(["status", "--config", file]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"pgrelay: no relay answers at 127.0.0.1:{port} (Connection refused); "
        f"start it with pgrelay run --config {file}, or correct http.listen\n"
    )


@pytest.mark.parametrize(
    ("listen", "why"),
    [
        (None, "is null, so the relay has no status server; set it"),
        ("127.0.0.1:0", "has port 0, so the relay took any that was free; name one"),
    ],
)
def test_without_a_known_address_the_status_is_an_error(listen: str | None, why: str) -> None:
    with pytest.raises(SetupError, match=rf"^relay.yaml: http.listen {why}, and restart the relay$"):
        ask(listening_at(listen), "relay.yaml")


def test_the_answer_of_another_slots_relay_is_an_error() -> None:
    with (
        RelayStub().served() as server,
        pytest.raises(SetupError, match=r"has slot shop, but relay.yaml names other; correct http.listen"),
    ):
        ask(listening_at(f"127.0.0.1:{server.port}", slot="other"), "relay.yaml")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}"])
def test_an_answer_that_is_no_relays_is_an_error(body: bytes) -> None:
    class Exchange(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Exchange) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(SetupError, match=r"is not a pgrelay of this version; correct http\.listen"):
            ask(listening_at(f"127.0.0.1:{server.server_port}"), "relay.yaml")
        thread.join()


def test_a_relay_of_another_version_is_an_error_except_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    relay = RelayStub()
    other = StatusServer(("127.0.0.1", 0), relay.metrics, relay.health, lambda: {"slot": "shop", "new": 1})
    with other as server, structlog.testing.capture_logs():
        file = file_of(tmp_path, f"127.0.0.1:{server.port}")
        assert main(["status", "--config", file]) == 2
        assert capsys.readouterr().err == (
            "pgrelay: the relay that answers has another version; use that version's pgrelay, or --json\n"
        )
        assert main(["status", "--config", file, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"slot": "shop", "new": 1}


def test_a_server_that_does_not_speak_http_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"SSH-2.0-OpenSSH\r\n")

        thread = threading.Thread(target=talk)
        thread.start()
        with pytest.raises(SetupError, match=r"^no relay answers at"):
            ask(listening_at(f"127.0.0.1:{server.getsockname()[1]}"), "relay.yaml")
        thread.join()
