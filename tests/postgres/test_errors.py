"""What a server's error means to us, by its SQLSTATE or, for a connection, by its text."""

import pytest
from psycopg import OperationalError
from psycopg.errors import CharacterNotInRepertoire, ObjectNotInPrerequisiteState

from pgrelay.errors import (
    GapError,
    PasswordRefused,
    PgrelayError,
    SetupError,
    SourceUnavailable,
    StreamingFailed,
)
from pgrelay.postgres.errors import connection_error, query_error, server_error


@pytest.mark.parametrize(
    ("sqlstate", "meaning"),
    [
        ("57P01", SourceUnavailable),  # admin_shutdown
        ("55006", SourceUnavailable),  # object_in_use: the slot, by another relay
        ("XX000", SourceUnavailable),  # internal_error
        (None, SourceUnavailable),
        ("55000", GapError),  # object_not_in_prerequisite_state: the slot is invalidated
        ("42704", SetupError),  # undefined_object: no such slot, no such publication
        ("42501", SetupError),  # insufficient_privilege
    ],
)
def test_each_sqlstate_means_retry_or_stop(sqlstate: str | None, meaning: type[PgrelayError]) -> None:
    error = server_error(sqlstate, "it says so")
    assert type(error) is meaning
    assert str(error).startswith("it says so")


@pytest.mark.parametrize(
    "text",
    [
        "requested WAL segment 000000010000000A000000FE has already been removed",
        "konnte Datei »pg_wal/000000010000000000000001« nicht öffnen: Datei oder Verzeichnis nicht gefunden",
    ],
)
def test_a_missing_wal_file_is_a_gap(text: str) -> None:
    error = server_error("58P01", text)
    assert type(error) is GapError
    assert str(error).startswith(f"{text}: changes are gone from the WAL; run pgrelay reset, then copy the")


@pytest.mark.parametrize(
    "text",
    [
        'could not access file "pgoutput": No such file or directory',
        'could not open file "pg_wal/00000002.history": No such file or directory',
    ],
)
def test_another_missing_file_is_no_gap(text: str) -> None:
    error = server_error("58P01", text)
    assert type(error) is SetupError
    assert "pgrelay reset" not in str(error)


def test_a_server_not_set_up_for_slots_is_a_setup_error_not_a_gap() -> None:
    """An invalidated slot has the same code, but only a stream meets that."""
    error = query_error(ObjectNotInPrerequisiteState("logical decoding requires wal_level >= logical"))
    assert type(error) is SetupError
    assert str(error) == (
        "logical decoding requires wal_level >= logical; change that on the server, and restart it"
    )


def test_a_name_that_is_not_utf8_is_a_setup_error() -> None:
    """For example a table's, in a database whose encoding is SQL_ASCII."""
    error = query_error(CharacterNotInRepertoire('invalid byte sequence for encoding "UTF8": 0xfc'))
    assert type(error) is SetupError
    assert str(error) == (
        'the server can\'t send a name: invalid byte sequence for encoding "UTF8": 0xfc; '
        "rename the table, column or type that is not UTF-8"
    )


def test_the_error_for_a_slot_in_use_names_its_reader_and_says_that_we_wait() -> None:
    error = server_error("55006", 'replication slot "pgrelay" is active for PID 77')
    assert str(error) == (
        'replication slot "pgrelay" is active for PID 77; another relay or client has it: '
        "this one takes over when it goes"
    )


@pytest.mark.parametrize(
    "text",
    [
        'could not map filenode "base/16384/16392" to relation OID',
        'could not map filenumber "base/16384/16393" to relation OID',
    ],
)
def test_the_error_for_a_server_bug_in_streaming_names_its_cure(text: str) -> None:
    error = server_error("XX000", text)
    assert type(error) is StreamingFailed
    assert "source.streaming: off" in str(error)
    assert "source.two_phase" in str(error)
    assert str(error).endswith("A transaction that Postgres can't stream")


@pytest.mark.parametrize(
    ("sqlstate", "text"),
    [
        ("XX000", "invalid memory alloc request size 1200000003"),
        ("54000", "out of memory"),
    ],
)
def test_a_row_too_large_as_text_is_a_setup_error(sqlstate: str, text: str) -> None:
    error = server_error(sqlstate, text, "in the change callback")
    assert type(error) is SetupError
    assert str(error) == (
        f"the server can't send a row: {text} (in the change callback): as text it is too large for "
        "Postgres; set source.binary: true, and if that does not help run pgrelay reset, then copy the "
        "tables"
    )


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ('FATAL:  database "shop" does not exist', "name the database in source.dsn"),
        ('FATAL:  role "relay" does not exist', "correct the user in source.dsn"),
        ("server does not support SSL, but SSL was required", "set sslmode and sslrootcert"),
        ('FATAL:  unrecognized configuration parameter "x"', "correct options in source.dsn"),
        ('FATAL:  invalid value for parameter "work_mem": "x"', "correct options in source.dsn"),
        ("FATAL:  invalid command-line argument for server process: x", "correct options in source.dsn"),
        ('could not load private key file "/k.pem": unsupported', "correct sslkey in source.dsn"),
        (
            'authentication method requirement "scram-sha-256" failed: server requested a cleartext password',
            "correct require_auth",
        ),
        ("channel binding required, but SSL not in use", "channel_binding in source.dsn"),
        ("FATAL:  unsupported startup parameter: replication", "not at a connection pooler"),
        (
            'FATAL:  pg_hba.conf rejects connection for host "10.0.0.7", user "relay", database "shop", '
            "no encryption",
            "add to pg_hba.conf, ahead of any line that rejects us",
        ),
        ('FATAL:  permission denied for database "shop"', "GRANT CONNECT ON DATABASE"),
        (
            "FATAL:  conversion between UTF8 and MULE_INTERNAL is not supported",
            "a database in another encoding",
        ),
        (
            'FATAL:  permission denied to set role "x", CONTEXT:  PL/pgSQL function f() line 1 at RAISE',
            "look into what the database runs at a login",
        ),
    ],
)
def test_each_refusal_has_its_cure(text: str, cure: str) -> None:
    error = connection_error(OperationalError(text), "")
    assert type(error) is SetupError
    assert str(error).startswith(f"source.dsn: {text}; ")
    assert cure in str(error)


def test_a_refused_password_of_a_file_is_told_from_others() -> None:
    refused = 'FATAL:  password authentication failed for user "relay"'
    error = connection_error(OperationalError(f'{refused}\npassword retrieved from file "/p"'), "")
    assert type(error) is PasswordRefused
    assert 'password retrieved from file "/p"; give the password of' in str(error)
    assert type(connection_error(OperationalError(refused), "")) is SetupError


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ('FATAL:  too many connections for role "relay"', "raise max_connections, or the CONNECTION LIMIT"),
        ("FATAL:  sorry, too many clients already", "raise max_connections, or the CONNECTION LIMIT"),
        ('FATAL:  database "shop" is not currently accepting connections', "ALLOW_CONNECTIONS true"),
        ("FATAL:  the database system is not yet accepting connections", "wait until Postgres has started"),
    ],
)
def test_each_transient_error_has_its_cure(text: str, cure: str) -> None:
    error = connection_error(OperationalError(text), "dbname=shop")
    assert type(error) is SourceUnavailable
    assert cure in str(error)
