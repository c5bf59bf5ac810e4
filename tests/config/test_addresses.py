"""Which addresses are accepted and refused; a piece of a password is never shown as a host."""

import pytest
from pydantic import ValidationError

from pgrelay.config import SourceConfig
from pgrelay.config.addresses import brokers_fault, registry_fault


@pytest.mark.parametrize(
    "dsn",
    [
        "",
        "dbname=app",
        "postgresql://u@h1:1,h2:2/app?sslmode=require",
        "service=x",
        "postgresql://me:p%40ss@host/d%40ta",
        "host=@abstract",
        "host=db.example.,::1,127.0.0.1",
        "host=a..b hostaddr=127.0.0.1",
        "host=/run/p@th",
        "dbname=d@ta",
    ],
)
def test_valid_connection_strings_are_accepted(dsn: str) -> None:
    assert SourceConfig(dsn=dsn).dsn == dsn


@pytest.mark.parametrize(
    "dsn",
    ["app", "foo=1", "host='x", "postgresql://[::1/app", "http://localhost", "postgresql://me:a/b@host/app"],
)
def test_connection_strings_that_libpq_refuses_are_refused(dsn: str) -> None:
    with pytest.raises(ValidationError, match="libpq can't read it; write postgresql://"):
        SourceConfig(dsn=dsn)


@pytest.mark.parametrize("dsn", ["postgresql://h/app?sslmod=require", "hots=h sslmode=require dbname=app"])
def test_a_parameter_that_is_nearly_one_of_libpqs_is_told(dsn: str) -> None:
    line = r"can't read it: did you mean the parameter (sslmode|host)\?; write"
    with pytest.raises(ValidationError, match=line):
        SourceConfig(dsn=dsn)


@pytest.mark.parametrize(
    "dsn", ["host=h password='a sslmod=b", "host=h options=-c lock_timeout=5s", "host=h hst"]
)
def test_what_is_no_misspelled_parameter_gets_no_hint(dsn: str) -> None:
    with pytest.raises(ValidationError, match="libpq can't read it; write"):
        SourceConfig(dsn=dsn)


@pytest.mark.parametrize(
    "dsn",
    ["postgresql://me@db..internal/app", "host=a,.internal", f"postgresql://{'h' * 64}.internal:5432/app"],
)
def test_an_invalid_host_name_is_refused(dsn: str) -> None:
    with pytest.raises(ValidationError, match=r"its host is not a valid name: .* 1 to 63 bytes; correct it"):
        SourceConfig(dsn=dsn)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:p4ss@hunter2@127.0.0.1:5/app",
        "postgresql://me:p4ss@@hunter2@127.0.0.1:5/app",
        "postgresql://me:p4ss@h1,hunter2@h2/app",
        "postgresql://me:p4ss@a/hunter2@127.0.0.1/app",
        "postgresql://me:12/hunter2@127.0.0.1/app",
        "host=me:hunter2@127.0.0.1",
    ],
)
def test_an_unescaped_password_is_refused_and_not_shown_as_a_host(dsn: str) -> None:
    with pytest.raises(ValidationError, match="write an @ in user or password as %40") as caught:
        SourceConfig(dsn=dsn)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("dsn", ["postgresql://h/app?replication=database", "replication=true"])
def test_a_dsn_that_sets_replication_is_refused(dsn: str) -> None:
    with pytest.raises(ValidationError, match="sets replication, which pgrelay sets itself; leave it out"):
        SourceConfig(dsn=dsn)


@pytest.mark.parametrize(
    "servers",
    [
        "localhost",
        "kafka_1.local:9092",
        "a:1, b:65535,,c",
        "[::1]:9092",
        "[fe80::1%eth0]",
        "::1",
        "SASL_SSL://a:1,plaintext://[::1]:1",
    ],
)
def test_valid_brokers_are_accepted(servers: str) -> None:
    assert brokers_fault(servers) is None


@pytest.mark.parametrize(
    "entry", ["a:x", "a:0", "a:65536", "a:", "a b:1", "http://a:1", "a:1/x", "[::1", "[x]:1", "a:1:2"]
)
def test_an_invalid_broker_is_refused(entry: str) -> None:
    assert brokers_fault(f"good:1,{entry}") == (
        f"{entry!r} is not host:port; write host:port,host:port, an IPv6 host in brackets"
    )


@pytest.mark.parametrize("servers", ["me:hunter2@a:9", "me:hun,ter2@a:9", "a:1,SASL_SSL://me:hunter2@a:9"])
def test_a_password_among_the_brokers_is_refused_and_not_shown(servers: str) -> None:
    fault = brokers_fault(servers)
    assert fault is not None
    assert "address can't contain a user or password" in fault
    assert "ter2" not in fault


@pytest.mark.parametrize(
    "url", ["http://registry:8081", "https://me:p%40ss@registry/api", "http://a:1,http://me:pw@b:1"]
)
def test_valid_registries_are_accepted(url: str) -> None:
    assert registry_fault(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "me:hunter2@localhost:9",
        "http://me:p@hunter2@localhost:9",
        "http://me:1/hunter2@localhost:9",
        "http://me:hunter2#x@localhost:9",
        "http://hunter2:x",
        "http://a:0",
        "http://hunter2..ä:1",
        "http://",
        "ftp://hunter2",
        "http://a:1,hunter2",
        "",
    ],
)
def test_an_invalid_registry_is_refused_and_not_shown(url: str) -> None:
    assert registry_fault(url) == (
        "not a registry's address; write http://host:8081 or https://..., special characters as %XX"
    )
