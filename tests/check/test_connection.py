"""The finding for a refused connection, by the messages of libpq and servers."""

import pytest
from psycopg import OperationalError

from pgrelay.check.connection import connection_refused, host_findings
from pgrelay.errors import SetupError, SourceUnavailable
from pgrelay.postgres.errors import connection_error

DSN = "postgresql://relay:s3cret@db:5432/shop"
AT = 'connection failed: connection to server at "10.0.0.1", port 5432 failed: '


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ('FATAL:  password authentication failed for user "relay"', "give the password of relay"),
        ("fe_sendauth: no password supplied", "give the password of relay"),
        ('FATAL:  role "relay" does not exist', "CREATE ROLE relay LOGIN REPLICATION"),
        ('FATAL:  role "relay" is not permitted to log in', "ALTER ROLE relay LOGIN"),
        ('FATAL:  database "shop" does not exist', "CREATE DATABASE shop"),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.2"', "host shop relay"),
        ("FATAL:  the database system is starting up", "wait until"),
        ("FATAL:  permission denied to start WAL sender", "ALTER ROLE relay REPLICATION"),
        ("FATAL:  must be superuser or replication role to start walsender", "ALTER ROLE relay REPLICATION"),
        ("FATAL:  number of requested standby connections exceeds max_wal_senders", "ALTER SYSTEM"),
        ("FATAL:  unsupported startup parameter: replication", "not at a connection pooler"),
        ("server does not support SSL, but SSL was required", "sslmode"),
        ("Connection refused\n\tIs the server running on that host?", "start Postgres"),
        ("something new", "psql with the same string"),
    ],
)
def test_each_refusal_has_its_cure(text: str, cure: str) -> None:
    finding = connection_refused(SetupError(f"source.dsn: {AT}{text}"), DSN)
    assert finding.level == "error"
    assert finding.why.startswith("connection to server at")
    assert cure in finding.cure
    assert "s3cret" not in f"{finding}"


def test_an_error_that_has_its_cure_already_gets_no_second() -> None:
    refusal = connection_error(OperationalError(f"{AT}Connection refused"), DSN)
    assert connection_refused(refusal, DSN) == connection_refused(
        SourceUnavailable(f"Postgres can't be reached: {AT}Connection refused"), DSN
    )


def test_an_error_with_a_cure_of_its_own_keeps_that() -> None:
    """A run would end with it: the finding must not say something else."""
    finding = connection_refused(SetupError("invalid host name: label too long; correct PGHOST"), DSN)
    assert (finding.why, finding.cure) == ("invalid host name: label too long", "correct PGHOST")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("Connection refused", "Postgres can't be reached"),
        ("timeout expired", "Postgres can't be reached"),
        ('FATAL:  role "relay" does not exist', "Postgres does not let us in"),
    ],
)
def test_an_absent_server_is_not_reported_as_refusing_us(text: str, what: str) -> None:
    assert connection_refused(connection_error(OperationalError(f"{AT}{text}"), DSN), DSN).what == what


def test_the_cure_for_a_missing_database_name_is_to_name_it() -> None:
    refusal = SetupError(f'source.dsn: {AT}FATAL:  database "relay" does not exist')
    assert connection_refused(refusal, "postgresql://relay@db").cure.startswith(
        "name the database in source.dsn"
    )


def test_an_unknown_role_is_left_open_in_the_cure() -> None:
    finding = connection_refused(
        SourceUnavailable('Postgres can\'t be reached: FATAL:  role "x" does not exist'), ""
    )
    assert "CREATE ROLE <role>" in finding.cure


@pytest.mark.parametrize("dsn", ["host=a,b", "postgresql://a,b/shop", "host=a,b target_session_attrs=any"])
def test_several_hosts_without_target_session_attrs_are_a_warning(dsn: str) -> None:
    [finding] = host_findings(dsn)
    assert (finding.level, finding.cure) == ("warning", "add target_session_attrs=read-write to source.dsn")


@pytest.mark.parametrize("dsn", [DSN, "host=a,b target_session_attrs=read-write", "host=a"])
def test_one_host_or_read_write_is_accepted(dsn: str) -> None:
    assert host_findings(dsn) == []
