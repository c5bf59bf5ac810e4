"""The effects of a registry's answers: cached ids, refusals that stop the relay, and temporary trouble."""

import asyncio
import base64
import contextlib
import json
import ssl
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from typing import Any

import pytest

from pgrelay.encode.avro.schema import SchemaIds, Schemas
from pgrelay.errors import PgrelayError, RegistryUnavailable, SetupError
from pgrelay.kafka.registry import Registry
from tests.integration.security.certificates import Authority
from tests.integration.waiting import eventually

ORDERS = Schemas("app.public.orders", "public.orders", '{"type":"string"}', '{"type":"int"}')
TOKENS = {
    "bearer_auth_credentials_source": "OAUTHBEARER",
    "bearer_auth_client_id": "me",
    "bearer_auth_client_secret": "told-1",
    "bearer_auth_scope": "all",
    "bearer_auth_logical_cluster": "lsrc-1",
}


class Answers(ThreadingHTTPServer):
    """A registry that gives ids from 1 on, or the status and body that a test sets."""

    daemon_threads = False  # so that closing it waits for its threads, which other tests count

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.asked: list[tuple[str, str, Any]] = []
        self.authorization: list[str | None] = []
        self.trouble: tuple[int, str] | None = None
        self.silent, self.released = threading.Event(), threading.Event()

    @property
    def url(self) -> str:
        scheme = "https" if isinstance(self.socket, ssl.SSLSocket) else "http"
        return f"{scheme}://127.0.0.1:{self.server_address[1]}"

    def encrypt(self, authority: Authority, clients: bool = False) -> None:
        """Speak TLS from now on; `clients`: only with those that have a certificate."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.file)
        context.load_cert_chain(*authority.issue("127.0.0.1"))
        context.verify_mode = ssl.CERT_REQUIRED if clients else ssl.CERT_NONE
        # The handshake is the connection's thread's: here it would hold up the accepting one.
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request: Any, client_address: object) -> None:
        """After a failed handshake, wait until the client knows: bytes unread here would be a reset."""
        with contextlib.suppress(OSError):
            while socket.recv(request, 4096):  # past TLS
                pass

    def registry(self, **options: str) -> Registry:
        dotted = {name.replace("_", "."): value for name, value in options.items()}
        return Registry({"url": self.url, "max.retries": "0", **dotted})


class _Answer(BaseHTTPRequestHandler):
    server: Answers

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        # A request to a token issuer has a form as its body.
        form = self.headers["Content-Type"].startswith("application/x-www-form-urlencoded")
        self._answer(body if form else json.loads(body))

    def _answer(self, body: Any) -> None:
        server = self.server
        server.asked.append((self.command, self.path.partition("?")[0], body))
        server.authorization.append(self.headers["Authorization"])
        if server.silent.is_set():
            server.released.wait(60)
        status, text = server.trouble or (200, json.dumps({"id": len(server.asked)}))
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError):  # a client that has timed out
            self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@pytest.fixture
def answers() -> Iterator[Answers]:
    with Answers() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


def error(code: int, message: str) -> str:
    return json.dumps({"error_code": code, "message": message})


async def test_a_topics_key_and_value_have_a_subject_each(answers: Answers) -> None:
    registry = answers.registry()
    assert await registry.register(ORDERS) == SchemaIds(1, 2)
    await registry.close()
    assert [(path, body["schema"]) for _, path, body in answers.asked] == [
        ("/subjects/app.public.orders-key/versions", ORDERS.key),
        ("/subjects/app.public.orders-value/versions", ORDERS.value),
    ]


async def test_a_topic_without_keys_has_one_subject(answers: Answers) -> None:
    registry = answers.registry()
    assert await registry.register(Schemas("t", "t", None, '"int"')) == SchemaIds(None, 1)
    await registry.close()


async def test_a_registered_schema_is_cached(answers: Answers) -> None:
    registry = answers.registry()
    assert await registry.register(ORDERS) == await registry.register(ORDERS)
    await registry.close()
    assert len(answers.asked) == 2


async def test_the_next_session_registers_schemas_again(answers: Answers) -> None:
    """A registry that keeps its schemas in memory loses them: the id may then be another schema's."""
    registry = answers.registry()
    first = await registry.register(ORDERS)
    await registry.connect()
    assert await registry.register(ORDERS) != first
    await registry.close()


async def test_credentials_are_passed_on(answers: Answers) -> None:
    registry = answers.registry(basic_auth_user_info="me:pw")
    await registry.register(ORDERS)
    await registry.close()
    assert answers.authorization[0] == "Basic " + base64.b64encode(b"me:pw").decode()


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (409, error(409, "READER_FIELD_MISSING at /fields/3"), "compatibility"),
        (422, error(42201, "no schema"), "please report it"),
        (422, error(42205, "Subject is in read-only mode"), "; set its mode, and the subject's if it has"),
        (401, error(401, "who are you"), "basic.auth.user.info"),
        (403, error(40301, "not yours"), "grant the right"),
        (403, '{"detail": "in the words of a gateway"}', "grant the right"),
        (404, "<html>", "check records.schema_registry.url"),
    ],
)
async def test_a_refused_schema_stops_the_relay_naming_table_reason_and_cure(
    answers: Answers, status: int, body: str, message: str
) -> None:
    answers.trouble = status, body
    registry = answers.registry()
    with pytest.raises(SetupError) as refused:
        await registry.register(ORDERS)
    await registry.close()
    assert "app.public.orders-key" in str(refused.value)
    assert message in str(refused.value)
    if status in (409, 422):
        assert "public.orders: " in str(refused.value)
        assert json.loads(body)["message"] in str(refused.value)


@pytest.mark.parametrize("status", [500, 502, 503, 408, 429])
async def test_a_registry_with_a_server_error_is_retried(answers: Answers, status: int) -> None:
    answers.trouble = status, error(50001, "the store is away")
    registry = answers.registry()
    with pytest.raises(RegistryUnavailable, match=f"schema registry {answers.url}: .*the store is away"):
        await registry.register(ORDERS)
    await registry.close()


async def test_a_registry_that_does_not_answer_is_retried(answers: Answers) -> None:
    answers.silent.set()
    registry = answers.registry(timeout="0.5")
    with pytest.raises(RegistryUnavailable, match="schema registry"):
        await registry.register(ORDERS)
    await registry.close()


async def test_a_registry_that_does_not_run_is_retried() -> None:
    registry = Registry({"url": "http://me:pw@127.0.0.1:9", "max.retries": "0"})
    with pytest.raises(RegistryUnavailable) as away:
        await registry.connect()
    await registry.close()
    assert "pw@" not in str(away.value)


async def test_any_answer_except_a_server_error_shows_that_it_runs(answers: Answers) -> None:
    registry = answers.registry()
    for status in (200, 401, 404):
        answers.trouble = status, "[]"
        await registry.connect()
    answers.trouble = 503, "[]"
    with pytest.raises(RegistryUnavailable):
        await registry.connect()
    await registry.close()


async def test_the_loop_turns_while_the_registry_is_silent(answers: Answers) -> None:
    answers.silent.set()
    registry = answers.registry(timeout="30")
    asking = asyncio.create_task(registry.connect())
    await eventually(lambda: answers.asked, "the question")
    assert not asking.done()
    answers.released.set()
    await asking
    await registry.close()


async def messages_of_all_calls(registry: Registry, kind: type[PgrelayError]) -> list[str]:
    """The errors that each kind of request to the registry raises."""
    messages = []
    calls = registry.connect(), registry.register(ORDERS), registry.incompatible_subjects(["t"], "debezium")
    for call in calls:
        with pytest.raises(kind) as raised:
            await call
        assert type(raised.value) is kind
        messages.append(str(raised.value))
    await registry.close()
    return messages


async def test_an_absent_token_server_is_retried(answers: Answers) -> None:
    registry = answers.registry(**TOKENS, bearer_auth_issuer_endpoint_url="http://127.0.0.1:9/token")
    for message in await messages_of_all_calls(registry, RegistryUnavailable):
        assert message.startswith(f"no token for schema registry {answers.url}: ")
        assert "; start the token endpoint" in message
    assert answers.asked == []


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, '{"error": "invalid_client", "error_description": "the secret is told-1"}', SetupError),
        (401, "<html>", SetupError),
        (404, "<html>", RegistryUnavailable),
        (503, '{"error": "invalid_client"}', RegistryUnavailable),
        (200, "<html>", RegistryUnavailable),
        (200, '{"token_type": "Bearer"}', RegistryUnavailable),
    ],
)
async def test_a_token_server_that_refuses_us_stops_the_relay(
    answers: Answers, status: int, body: str, kind: type[PgrelayError]
) -> None:
    answers.trouble = status, body
    registry = answers.registry(**TOKENS, bearer_auth_issuer_endpoint_url=f"{answers.url}/token")
    for message in await messages_of_all_calls(registry, kind):
        assert "bearer.auth." in message
        assert "told-1" not in message
        assert "\n" not in message
    assert {path for _, path, _ in answers.asked} == {"/token"}


async def test_a_token_without_a_lifetime_stops_the_relay(answers: Answers) -> None:
    """The client takes it, and then can't tell whether it still holds."""
    answers.trouble = 200, '{"access_token": "told-1", "token_type": "Bearer", "id": 1}'
    registry = answers.registry(**TOKENS, bearer_auth_issuer_endpoint_url=f"{answers.url}/token")
    await registry.connect()
    with pytest.raises(
        SetupError, match=r"^no token for .*: what its endpoint gives has no expires_in, .*; "
    ):
        await registry.register(ORDERS)
    await registry.close()


async def test_a_registry_with_a_trusted_certificate_is_used(answers: Answers, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    answers.encrypt(authority)
    registry = answers.registry(ssl_ca_location=str(authority.file))
    await registry.register(ORDERS)
    await registry.close()


@pytest.mark.parametrize(("issuer", "host"), [("stranger", "127.0.0.1"), ("authority", "localhost")])
async def test_a_registry_with_an_untrusted_certificate_stops_the_relay(
    answers: Answers, tmp_path: Path, issuer: str, host: str
) -> None:
    """As for Kafka: a later try would not be trusted either."""
    answers.encrypt(Authority(tmp_path))
    trusted = tmp_path / "authority.pem" if issuer == "authority" else Authority(tmp_path, issuer).file
    url = answers.url.replace("127.0.0.1", host)
    for message in await messages_of_all_calls(
        answers.registry(url=url, ssl_ca_location=str(trusted)), SetupError
    ):
        assert message.startswith(
            f"schema registry {url}: its certificate is not trusted: [SSL: CERTIFICATE_"
        )
        assert message.endswith("; correct ssl.ca.location, or the host in url, in records.schema_registry")


async def test_a_registry_that_requires_our_certificate_is_retried(answers: Answers, tmp_path: Path) -> None:
    """As for a broker, which may be the one that is wrong. TLS 1.3 reports it only after the handshake."""
    authority = Authority(tmp_path)
    answers.encrypt(authority, clients=True)
    registry = answers.registry(ssl_ca_location=str(authority.file))
    for message in await messages_of_all_calls(registry, RegistryUnavailable):
        assert "certificate required" in message


async def test_a_token_server_with_an_untrusted_certificate_stops_the_relay(
    answers: Answers, tmp_path: Path
) -> None:
    answers.encrypt(Authority(tmp_path))
    registry = Registry(
        {"url": "http://127.0.0.1:9", "max.retries": "0"}
        | {name.replace("_", "."): value for name, value in TOKENS.items()}
        | {"bearer.auth.issuer.endpoint.url": f"{answers.url}/token"}
    )
    for message in await messages_of_all_calls(registry, SetupError):
        assert message.startswith(
            "no token for schema registry http://127.0.0.1:9: [SSL: CERTIFICATE_VERIFY_"
        )
        assert message.endswith("; set SSL_CERT_FILE in the environment to its authority's file")


@pytest.mark.parametrize(
    "body",
    ["<html>please log in</html>", "[]", "{}", "7", '{"id": "1"}', pytest.param("[" * 100_000, id="deep")],
)
async def test_an_answer_that_is_not_a_registrys_is_retried(answers: Answers, body: str) -> None:
    answers.trouble = 200, body
    registry = answers.registry()
    with pytest.raises(RegistryUnavailable, match=f"schema registry {answers.url}: what answers is not a "):
        await registry.register(ORDERS)
    await registry.close()


async def test_what_a_registry_says_is_one_line_without_our_secrets(answers: Answers) -> None:
    options = {"basic.auth.user.info": "me:hunter2"}
    quoted = "denied for Basic bWU6aHVudGVyMg==,\n\x1b]0;or me:hunter2"
    answers.trouble = 403, json.dumps({"error_code": 40301, "message": quoted})
    registry = answers.registry(**options)
    with pytest.raises(SetupError, match="denies access") as refused:
        await registry.register(ORDERS)
    await registry.close()
    assert r": denied for Basic ***, \x1b]0;or ***; correct" in str(refused.value)


async def test_an_html_page_is_not_a_registry(answers: Answers) -> None:
    answers.trouble = 200, "<html>"
    for message in await messages_of_all_calls(answers.registry(), RegistryUnavailable):
        assert message.startswith(f"schema registry {answers.url}: what answers is not a schema registry")


def test_a_proxy_that_the_client_can_not_use_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    with pytest.raises(SetupError, match=r"records\.schema_registry: .*; or name an http:// proxy"):
        Registry({"url": "http://r"})


@pytest.mark.parametrize("number", ["-1", "nan", "inf", "1e999"])
@pytest.mark.parametrize("name", ["max.retries", "timeout", "cache.capacity", "retries.wait.ms"])
def test_a_number_option_that_is_negative_or_not_finite_is_refused(name: str, number: str) -> None:
    with pytest.raises(SetupError, match=f"{name} is not a number, 0 or more: {number}"):
        Registry({"url": "http://r", name: number})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "http://r", "user": "me"}, "Unrecognized properties: user"),
        ({"url": "r:8081"}, "Invalid url"),
        ({"url": "http://r", "timeout": "soon"}, "timeout is not a number, 0 or more: soon"),
        ({"url": "http://r", "basic.auth.user.info": "me"}, "username"),
        (
            {"url": "http://r", "ssl.ca.location": "/nowhere.pem"},
            "ssl.ca.location: /nowhere.pem: No such file",
        ),
    ],
)
def test_invalid_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(SetupError, match=r"records\.schema_registry: ") as refused:
        Registry(options)
    assert message in str(refused.value)


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)
    with pytest.raises(SetupError, match=r"pip install 'pgrelay\[avro\]'"):
        Registry({"url": "http://r"})
