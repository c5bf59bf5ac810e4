"""Connections that never come about: what is waited for, and what is not."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from socketserver import StreamRequestHandler
from struct import pack

import pytest

from pgrelay.errors import SetupError, SourceUnavailable
from pgrelay.postgres.connection import connect
from tests.answering import answering
from tests.integration.security.certificates import Authority


async def test_an_invalid_host_in_pghost_is_a_setup_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGHOST", "db..internal")
    with pytest.raises(SetupError, match=r"invalid host name: .*; correct PGHOST"):
        await connect("dbname=app")


PARAMETER = "correct that parameter in source.dsn, or the PG* variable that gives it"


@pytest.mark.parametrize(
    "parameters",
    [
        "connect_timeout=abc",
        "sslmode=bogus",
        "target_session_attrs=bogus",
        "port=99999",
        "port=1,2",
        "service=nope",
        "keepalives=x",
        "hostaddr=x",
        "sslmode=require sslrootcert=system",
        "sslnegotiation=direct",
        "ssl_min_protocol_version=TLSv1.3 ssl_max_protocol_version=TLSv1.2",
        "scram_client_key=x",
    ],
)
async def test_a_connection_string_that_never_works_is_a_setup_error(parameters: str) -> None:
    with pytest.raises(SetupError) as caught:
        await connect(f"host=127.0.0.1 {parameters}")
    assert str(caught.value).startswith("source.dsn: ")
    assert str(caught.value).endswith(f"; {PARAMETER}")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"PGPORT": "abc"}, '"abc"'),
        ({"PGSSLMODE": "bogus"}, '"bogus"'),
        ({"PGSERVICE": "x", "PGSERVICEFILE": "/none"}, '"/none"'),
    ],
)
async def test_an_environment_variable_that_never_works_is_a_setup_error(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SetupError, match=re.escape(PARAMETER)) as caught:
        await connect("host=127.0.0.1")
    assert expected in str(caught.value)


async def test_an_absent_server_is_waited_for_and_the_cure_named() -> None:
    with pytest.raises(SourceUnavailable, match=r"refused; start Postgres, or correct host and port in"):
        await connect("host=127.0.0.1 port=1")


class Encrypting(StreamRequestHandler):
    """A server that accepts TLS, but never begins it."""

    timeout = 10

    def handle(self) -> None:
        self.rfile.read(8)
        self.wfile.write(b"S")
        while self.rfile.read1():
            pass


async def test_a_private_key_readable_by_others_is_a_setup_error(tmp_path: Path) -> None:
    """Kubernetes mounts it like this by default. libpq refuses it once the server speaks TLS."""
    certificate, key = Authority(tmp_path).issue("client")
    key.chmod(0o644)
    files = f"sslcert={certificate} sslkey={key}"
    with answering(Encrypting) as port, pytest.raises(SetupError) as caught:
        await connect(f"host=127.0.0.1 port={port} sslmode=require gssencmode=disable {files}")
    assert f'private key file "{key}" has group or world access' in str(caught.value)
    assert "; correct sslkey in source.dsn, or let nobody else read that file: chmod 0600" in str(
        caught.value
    )


class Mute(StreamRequestHandler):
    """A server that lets everybody in, and then does not answer."""

    timeout = 10

    def handle(self) -> None:
        self.rfile.read(int.from_bytes(self.rfile.read(4)) - 4)
        self.say((b"R", bytes(4)), (b"K", bytes(8)), READY)
        while self.rfile.read1():
            self.answer()

    def say(self, *messages: tuple[bytes, bytes]) -> None:
        for tag, body in messages:
            self.wfile.write(tag + pack(">i", 4 + len(body)) + body)

    def answer(self) -> None: ...


READY = b"Z", b"I"


class Failing(Mute):
    """A server that fails at every query, as with a broken login trigger."""

    def answer(self) -> None:
        self.say((b"E", b"SERROR\0VERROR\0CXX000\0Mcache lookup failed\0\0"), READY)


async def test_a_server_that_fails_at_the_first_query_is_waited_for() -> None:
    """Whatever the class of its error, it is no bug of ours."""
    with answering(Failing) as port, pytest.raises(SourceUnavailable, match="cache lookup failed"):
        await connect(f"host=127.0.0.1 port={port} sslmode=disable gssencmode=disable")


@pytest.fixture
def mute() -> Iterator[int]:
    """The port of a mute server."""
    with answering(Mute) as port:
        yield port


async def test_a_server_that_accepts_us_but_does_not_answer_is_given_up(
    mute: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a relay would wait for ever and log nothing."""
    monkeypatch.setattr("pgrelay.postgres.connection._ANSWER_TIMEOUT_S", 0.2)
    dsn = f"host=127.0.0.1 port={mute} sslmode=disable gssencmode=disable"
    with pytest.raises(SourceUnavailable, match=r"let us in, but has not answered for 0\.2 s"):
        await asyncio.wait_for(connect(dsn), 60)
