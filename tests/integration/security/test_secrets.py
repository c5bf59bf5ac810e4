"""No secret of the configuration is shown: not in the debug log, metrics, /readyz, errors, the process title
or the output of `pgrelay check`; neither in normal operation nor while a server refuses or is away.
"""

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from pgrelay.embedded.registry import SchemaRegistry
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.outcomes import WAITING, WRONG, last_words
from tests.integration.relays import Relay
from tests.integration.security.conftest import Secrets
from tests.threads import thread_names

# All share one registry, since starting it takes as long as several tests.
pytestmark = pytest.mark.xdist_group("registry")

HASH_KEY = f"hash-{secrets.token_hex(12)}"
REGISTRY = f"registry-{secrets.token_hex(12)}"
WRONG_PASSWORD = f"wrong-{secrets.token_hex(12)}"


@pytest.fixture
def everything(passwords: Secrets) -> list[str]:
    """All secrets, which must not be seen."""
    return [passwords.postgres, passwords.kafka, HASH_KEY, REGISTRY, WRONG_PASSWORD]


@pytest.fixture
def relay(secured: NewRelay, schema_registry: SchemaRegistry) -> Relay:
    """A relay with every kind of secret, which logs at debug; not started."""
    return secured(
        sink={"kafka": {"debug": "all"}},
        records={
            "format": "avro",
            "schema_registry": registry(schema_registry.url),
            "columns": {"hash": ["public.orders.note"], "hash_key": HASH_KEY},
        },
        log={"level": "debug"},
    )


def registry(url: str) -> dict[str, Any]:
    return {"url": url, "basic.auth.user.info": f"pgrelay:{REGISTRY}"}


def test_no_secret_is_shown_while_it_streams(relay: Relay, database: Database, everything: list[str]) -> None:
    relay.start(forked=False).wait_streaming()
    database.execute("INSERT INTO orders VALUES (1, 'x'); INSERT INTO customers VALUES (1)")
    relay.caught_up()
    relay.wait_for(lambda: relay.metric("pgrelay_records_total") >= 2, "both rows in the metrics")
    assert_untold(seen_of(relay), everything)
    assert relay.stop() == 0
    assert_untold({"the log": relay.log_text}, everything)


def postgres_password(relay: Relay) -> None:
    relay.sections["source"]["dsn"] = make_conninfo(relay.sections["source"]["dsn"], password=WRONG_PASSWORD)


def kafka_password(relay: Relay) -> None:
    relay.sections["sink"]["kafka"]["sasl.password"] = WRONG_PASSWORD


def unknown_option(relay: Relay) -> None:
    relay.sections["sink"]["kafka"]["sasl.passwords"] = WRONG_PASSWORD


def not_an_option(relay: Relay) -> None:
    relay.sections["records"]["schema_registry"]["max.retries"] = "many"


def unescaped(relay: Relay) -> None:
    """A password with a slash, the beginning of which libpq takes for the port."""
    relay.sections["source"]["dsn"] = f"postgresql://pgrelay:{WRONG_PASSWORD}/@localhost/app"


def bad_hash_key(relay: Relay) -> None:
    relay.sections["records"]["columns"]["hash_key"] = [WRONG_PASSWORD]


# Each with a word from the expected error, to be sure that this is the reason.
REFUSALS = [
    (postgres_password, "password authentication failed"),
    (kafka_password, "correct the credentials in sink.kafka"),
    (unknown_option, "sasl.passwords"),
    (not_an_option, "max.retries"),
    (unescaped, "source.dsn"),
    (bad_hash_key, "records.columns.hash_key"),
]


@pytest.mark.parametrize(("spoil", "why"), REFUSALS)
def test_no_secret_is_shown_when_it_is_refused(
    relay: Relay, everything: list[str], spoil: Callable[[Relay], None], why: str
) -> None:
    spoil(relay)
    relay.start()
    assert relay.wait_exit() == WRONG
    assert why in relay.log_text
    assert_untold({"the log": relay.log_text, **checks(relay)}, everything)


def test_no_secret_is_shown_when_the_registry_refuses_it(
    relay: Relay, database: Database, everything: list[str]
) -> None:
    with refusing_registry() as url:
        relay.sections["records"]["schema_registry"] = registry(url)
        database.execute("INSERT INTO orders VALUES (1, 'x')")
        relay.start().wait_streaming()
        database.execute("INSERT INTO orders VALUES (2, 'x')")
        assert "correct basic.auth.user.info" in last_words(relay, WRONG)
        assert_untold({"the log": relay.log_text, **checks(relay)}, everything)


NOWHERE = "127.0.0.1:1"  # a port on which no server ever listens


def postgres_away(relay: Relay) -> None:
    dsn = relay.sections["source"]["dsn"]
    relay.sections["source"]["dsn"] = make_conninfo(dsn, port="1")


def kafka_away(relay: Relay) -> None:
    relay.sections["sink"]["kafka"]["bootstrap.servers"] = NOWHERE


def registry_away(relay: Relay) -> None:
    relay.sections["records"]["schema_registry"] = {"url": f"http://pgrelay:{REGISTRY}@{NOWHERE}"}


@pytest.mark.parametrize("leave", [postgres_away, kafka_away, registry_away])
def test_no_secret_is_shown_while_it_waits(
    relay: Relay, everything: list[str], leave: Callable[[Relay], None]
) -> None:
    leave(relay)
    relay.start(forked=False).wait_event(WAITING)
    assert_untold(seen_of(relay), everything)


# --- Where to look


def seen_of(relay: Relay) -> dict[str, str]:
    """Everything that a running relay shows."""
    process = Path(f"/proc/{relay.pid}")
    return {
        "the log": relay.log_text,
        **{path: relay.get(path)[1] for path in ("/metrics", "/healthz", "/readyz", "/status", "/")},
        "its command line": (process / "cmdline").read_text(),
        "its title": "".join(thread_names(relay.pid)),
        **checks(relay),
    }


def checks(relay: Relay) -> dict[str, str]:
    found = {}
    for options in (), ("--json",):
        done = relay.command("check", *options)
        assert done.returncode in (0, WRONG), done.stderr
        found[" ".join(("check", *options))] = done.stdout + done.stderr
    return found


def assert_untold(seen: dict[str, str], everything: list[str]) -> None:
    assert seen["the log"]
    for place, text in seen.items():
        told = [secret for secret in everything if secret in text]
        assert not told, f"{place} tells {told}"


@contextmanager
def refusing_registry() -> Iterator[str]:
    """A server that answers every registration with 401, which our registry without users never does."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(200, b'["AVRO"]')

        def do_POST(self) -> None:
            self.answer(401, b'{"error_code": 401, "message": "Unauthorized"}')

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
