"""What a check says of a schema registry that a run could not begin with."""

from socketserver import StreamRequestHandler

import pytest

from pgrelay.check.registry import registry_findings, security_findings
from pgrelay.config import Records
from tests.answering import answering


class Refusing(StreamRequestHandler):
    """An issuer of tokens that does not know us."""

    def handle(self) -> None:
        while self.rfile.readline() != b"\r\n":
            pass
        # Confluent's client does not close its connection to an issuer, unless it is told to.
        self.wfile.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


async def test_a_token_server_that_refuses_us_is_an_error() -> None:
    with answering(Refusing) as port:
        options = {
            "url": "http://127.0.0.1:9",
            "max.retries": "0",
            "bearer.auth.credentials.source": "OAUTHBEARER",
            "bearer.auth.client.id": "me",
            "bearer.auth.client.secret": "wrong",
            "bearer.auth.scope": "all",
            "bearer.auth.logical.cluster": "lsrc-1",
            "bearer.auth.issuer.endpoint.url": f"http://127.0.0.1:{port}/token",
        }
        records = Records(prefix="app", format="avro", schema_registry=options)
        (finding,) = await registry_findings(records, [])
    assert finding.level == "error"
    assert finding.what.startswith("no token for schema registry http://127.0.0.1:9: ")
    assert finding.cure == "correct the bearer.auth.* options in records.schema_registry"


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"url": "https://r", "ssl.ca.location": "false"}, "certificate is not verified"),
        ({"url": "http://r", "basic.auth.user.info": "me:pw"}, "without TLS"),
        ({"url": "https://r, http://me:pw@r"}, "without TLS"),
    ],
)
def test_credentials_that_others_may_read_are_a_warning(options: dict[str, str], what: str) -> None:
    (finding,) = security_findings(options)
    assert finding.level == "warning"
    assert what in finding.what


@pytest.mark.parametrize(
    "options",
    [
        {"url": "http://r"},
        {"url": "http://r", "ssl.key.location": "/key.pem", "ssl.key.password": "x"},
        {"url": "https://r", "basic.auth.user.info": "me:pw"},
        {"url": "https://me:pw@r", "ssl.ca.location": "/ca.pem"},
    ],
)
def test_a_registry_with_tls_or_without_credentials_is_fine(options: dict[str, str]) -> None:
    assert security_findings(options) == []
