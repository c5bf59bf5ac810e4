"""The cures for connections to Postgres that fail or are refused."""

from collections.abc import Sequence
from typing import Final

from psycopg.conninfo import conninfo_to_dict

# libpq and psycopg can't read the connection string, or a PG* variable: `invalid sslmode value: "x"`.
_BAD_PARAMETERS: Final = (
    ' value: "',
    "invalid port number",
    "invalid integer value",
    "bad value for",
    "definition of service",
    'service file "',
    "could not match",
    "could not parse network address",
    'weak sslmode "',
    "invalid SSL protocol version range",
    "invalid SCRAM client key",
    "invalid SCRAM server key",
)
_BAD_OPTIONS: Final = (
    "unrecognized configuration parameter",
    "invalid command-line argument",
    "invalid value for parameter",
)
# libpq's rules for the key file; a secret mounted in a container often breaks them.
_BAD_KEY: Final = ("private key file",)
# The server does not offer what require_auth or channel_binding demand.
_UNMET: Final = ("authentication method requirement", "channel binding")
# A line in pg_hba.conf that says reject. If no line matches, the text is `no pg_hba.conf entry`.
_REJECTED: Final = ("pg_hba.conf rejects",)
_POOLER: Final = ("unsupported startup parameter", "replication connections are not")
# The server's encoding can't be converted to ours; MULE_INTERNAL is the only one.
_NO_CONVERSION: Final = ("conversion between UTF8 and",)
# What no retry cures.
MISTAKES: Final = _BAD_PARAMETERS + _BAD_OPTIONS + _BAD_KEY + _UNMET + _REJECTED + _POOLER + _NO_CONVERSION

# Parts of libpq's or the server's text, and what to do about it; the first match counts. No cure has a
# semicolon: the last one in a message separates its cure.
_CURES: Final = (
    (
        # Its errors may have any text, including those below.
        ("PL/pgSQL function",),
        "look into what the database runs at a login: SELECT evtname, evtfoid::regproc FROM pg_event_trigger "
        "WHERE evtevent = 'login'",
    ),
    (
        ("no password supplied", "password authentication failed"),
        "give the password of {user} in source.dsn, PGPASSWORD or ~/.pgpass",
    ),
    (
        ("permission denied to start WAL sender", "must be superuser or replication role"),
        "ALTER ROLE {user} REPLICATION (on Amazon RDS: GRANT rds_replication TO {user})",
    ),
    (
        ("standby connections exceeds", "max_wal_senders"),
        "raise max_wal_senders (ALTER SYSTEM SET max_wal_senders = 20) and restart Postgres, "
        "or end another reader: SELECT pid, application_name FROM pg_stat_replication",
    ),
    (_POOLER, "point source.dsn at Postgres itself, not at a connection pooler"),
    (
        ("no pg_hba.conf entry", *_REJECTED),
        "add to pg_hba.conf, ahead of any line that rejects us: host {database} {user} <our address>/32 "
        "scram-sha-256, then SELECT pg_reload_conf()",
    ),
    (_NO_CONVERSION, "move the data to a database in another encoding, such as UTF8"),
    (_BAD_OPTIONS, "correct options in source.dsn, or PGOPTIONS"),
    (_BAD_PARAMETERS, "correct that parameter in source.dsn, or the PG* variable that gives it"),
    (
        _BAD_KEY,
        "correct sslkey in source.dsn, or let nobody else read that file: chmod 0600, or 0640 where it is "
        "root's",
    ),
    (_UNMET, "correct require_auth or channel_binding in source.dsn, or the server's pg_hba.conf"),
    (("not permitted to log in",), "ALTER ROLE {user} LOGIN"),
    (
        ("too many connections", "too many clients", "connection slots are reserved"),
        "end other sessions, or raise max_connections, or the CONNECTION LIMIT of the role or the database",
    ),
    (("permission denied for database",), "GRANT CONNECT ON DATABASE {database} TO {user}"),
    (
        ("not currently accepting connections",),
        "ALTER DATABASE {database} ALLOW_CONNECTIONS true, or correct the database in source.dsn",
    ),
    (('role "',), "CREATE ROLE {user} LOGIN REPLICATION PASSWORD '...', or correct the user in source.dsn"),
    (('database "',), "{correct} the database in source.dsn, or CREATE DATABASE {database}"),
    (
        ("starting up", "not yet accepting", "shutting down", "recovery mode"),
        "wait until Postgres has started",
    ),
    (("SSL", "certificate"), "set sslmode and sslrootcert in source.dsn as the server wants them"),
    (
        ("could not translate host name", "Name or service not known", "failed to resolve host"),
        "correct the host in source.dsn",
    ),
    (
        ("timeout expired", "timed out"),
        "correct host and port in source.dsn, or open the firewall between here and there",
    ),
    (
        ("Connection refused", "No such file or directory"),
        "start Postgres, or correct host and port in source.dsn (for other hosts it must listen on them: "
        "listen_addresses)",
    ),
)
_OTHERWISE: Final = "correct source.dsn (psql with the same string shows the same error)"


def cure(text: str, dsn: str) -> str:
    """The cure of a failed connection, by the error text of libpq or the server."""
    given = conninfo_to_dict(dsn)
    names = {
        "user": given.get("user") or "<role>",
        "database": given.get("dbname") or "<database>",
        # If none is named, libpq takes the database that has the user's name.
        "correct": "correct" if given.get("dbname") else "name",
    }
    matching = (cure for fragments, cure in _CURES if _contains_any(text, fragments))
    return next(matching, _OTHERWISE).format_map(names)


def _contains_any(text: str, fragments: Sequence[str]) -> bool:
    return any(fragment in text for fragment in fragments)
