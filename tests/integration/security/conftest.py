"""Fixtures on servers that are set up as in production: TLS and passwords on both sides, and least rights.

The servers' certificates are for `localhost`. Administrators need no password: as `postgres` in Postgres,
and at the broker's own listener. The relay is `pgrelay`, which has a password for both.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)
from psycopg.conninfo import make_conninfo

from pgrelay.embedded.account import server_account, server_folder
from pgrelay.embedded.jars import Unavailable
from pgrelay.embedded.kafka import Kafka
from pgrelay.embedded.postgres import Postgres
from tests.integration.acls import add_acls, remove_acls
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database, drop_database
from tests.integration.documented import acl_bindings, role_statements
from tests.integration.proxy import Proxy
from tests.integration.relays import Relay
from tests.integration.security.certificates import Authority
from tests.integration.servers import DEFAULT_VERSION, KafkaServer, PostgresServer
from tests.unavailable import skip

HBA = "hostssl all pgrelay all scram-sha-256\nhost all postgres all trust\n"

LISTENER = {
    "listener.security.protocol.map": "DIRECT:PLAINTEXT,PROXIED:SASL_SSL,CONTROLLER:PLAINTEXT",
    "listener.name.proxied.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.proxied.scram-sha-512.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "listener.name.proxied.ssl.keystore.type": "PEM",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@dataclass(frozen=True, slots=True)
class Secrets:
    """The relay's passwords, random for each run of the tests. A mirror's user has the same at the broker."""

    postgres: str
    kafka: str


@pytest.fixture(scope="session")
def passwords() -> Secrets:
    return Secrets(f"pg-{secrets.token_hex(12)}", f"kafka-{secrets.token_hex(12)}")


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """The folder of certificates, readable for the relay and both servers under any account."""
    with server_folder(None, "certificates", server_account()) as folder:
        yield folder


@pytest.fixture(scope="session")
def authority(folder: Path) -> Authority:
    return Authority(folder)


@pytest.fixture(scope="session")
def server(folder: Path, authority: Authority) -> Iterator[Postgres]:
    certificate, key = authority.issue("localhost")
    if (account := server_account()) is not None:
        os.chown(key, account.uid, account.gid)
    settings = {"ssl": "on", "ssl_cert_file": str(certificate), "ssl_key_file": str(key)}
    with ExitStack() as stack:
        try:
            postgres = stack.enter_context(
                Postgres(
                    version=DEFAULT_VERSION,
                    contrib=True,
                    settings={**settings, "password_encryption": "scram-sha-256"},
                )
            )
        except Unavailable as error:
            skip(error)
        (postgres.data / "pg_hba.conf").write_text(HBA)
        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")
        yield postgres


@pytest.fixture(scope="session")
def broker(folder: Path, authority: Authority, passwords: Secrets) -> Iterator[Kafka]:
    certificate, key = authority.issue("127.0.0.1")
    store = folder / "broker.pem"
    store.write_bytes(key.read_bytes() + certificate.read_bytes())
    settings = LISTENER | {"listener.name.proxied.ssl.keystore.location": str(store)}
    with ExitStack() as stack:
        try:
            kafka = stack.enter_context(Kafka(settings=settings))
        except Unavailable as error:
            skip(error)
        set_password(kafka, passwords.kafka, "pgrelay", "mirror")
        yield kafka


@pytest.fixture(scope="session")
def proxy(broker: Kafka) -> Iterator[Proxy]:
    """The secured listener advertises its address."""
    with Proxy(broker.proxy_target_port, broker.proxy_port) as proxy:
        yield proxy


@pytest.fixture
def postgres(server: Postgres) -> PostgresServer:
    return PostgresServer(DEFAULT_VERSION, server.dsn, server)


@pytest.fixture
def kafka(broker: Kafka) -> KafkaServer:
    return KafkaServer(broker.bootstrap, broker)


@pytest.fixture
def database(server: Postgres, postgres: PostgresServer, passwords: Secrets) -> Iterator[Database]:
    """The database `app` with the documented tables, role and publication; nobody else may connect."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE DATABASE app")
        connection.execute("REVOKE CONNECT ON DATABASE app FROM PUBLIC")
    database = Database(postgres, "app")
    try:
        for table in ("orders", "customers"):
            database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, note text)")
        for statement in role_statements(passwords.postgres):
            database.execute(statement)
        yield database
    finally:
        drop_database(database)
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("DROP ROLE IF EXISTS pgrelay")


@pytest.fixture
def secured(
    new_relay: NewRelay, broker: Kafka, proxy: Proxy, authority: Authority, passwords: Secrets
) -> NewRelay:
    """Creates relays that are set up as docs/security.md says, with no more rights than it gives them."""

    def make(suffix: str = "", /, **sections: dict[str, Any]) -> Relay:
        relay = new_relay(suffix, **sections)
        once = sections.get("sink", {}).get("delivery") == "exactly_once"
        allow(broker, acl_bindings(relay.prefix, exactly_once=once))
        relay.sections["source"] = {
            "dsn": dsn(relay.database, authority, passwords.postgres),
            "publications": ["pgrelay"],
            **sections.get("source", {}),
        }
        relay.sections["sink"] = dict(sections.get("sink", {}))
        relay.sections["sink"]["kafka"] = {
            **kafka_options(broker, authority, passwords.kafka),
            **sections.get("sink", {}).get("kafka", {}),
        }
        return relay

    return make


def dsn(database: Database, authority: Authority, password: str) -> str:
    return make_conninfo(
        database.dsn,
        host="localhost",
        hostaddr="127.0.0.1",
        user="pgrelay",
        password=password,
        sslmode="verify-full",
        sslrootcert=str(authority.file),
    )


def kafka_options(broker: Kafka, authority: Authority, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.proxied_bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.file),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "pgrelay",
        "sasl.password": password,
    }


def set_password(broker: Kafka, password: str, *users: str) -> None:
    """Connections that are open go on."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    kind = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    changes: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(user, kind, password.encode()) for user in users
    ]
    for done in client.alter_user_scram_credentials(changes).values():
        done.result()


@pytest.fixture(autouse=True)
def no_rights(broker: Kafka) -> Iterator[None]:
    """Take all rights away first: every test grants the relay its own."""
    yield
    take_back(broker)


def take_back(broker: Kafka) -> None:
    """Take all rights from the relay."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    anything: Any = None
    every = AclBindingFilter("any", anything, "any", anything, anything, "any", "any")
    remove_acls(client, [every])


def allow(broker: Kafka, bindings: list[AclBinding]) -> None:
    add_acls(AdminClient({"bootstrap.servers": broker.bootstrap}), bindings)
