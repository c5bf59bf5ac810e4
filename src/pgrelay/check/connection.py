"""Whether Postgres lets us in, on an ordinary connection and on a replication connection."""

from collections.abc import Sequence
from typing import Final

from psycopg.conninfo import conninfo_to_dict

from pgrelay.check.findings import Finding, error, ok
from pgrelay.errors import PgrelayError
from pgrelay.source import Source

# What libpq's or the server's text holds, and what to do about it; the first that fits counts.
_CURES: Final = (
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
    (
        ("unsupported startup parameter", "replication connections are not"),
        "point source.dsn at Postgres itself, not at a connection pooler",
    ),
    (
        ("no pg_hba.conf entry", "pg_hba.conf rejects"),
        "add to pg_hba.conf: host {database} {user} <our address>/32 scram-sha-256; "
        "then SELECT pg_reload_conf()",
    ),
    (("not permitted to log in",), "ALTER ROLE {user} LOGIN"),
    (('role "',), "CREATE ROLE {user} LOGIN REPLICATION PASSWORD '...', or correct the user in source.dsn"),
    (('database "',), "correct the database in source.dsn, or CREATE DATABASE {database}"),
    (("starting up", "shutting down", "recovery mode"), "wait until Postgres has started"),
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
        "start Postgres, or correct host and port in source.dsn; for other hosts it must listen on them "
        "(listen_addresses)",
    ),
)
_OTHERWISE: Final = "correct source.dsn; psql with the same string shows the same error"


def refused_connection(refusal: PgrelayError, dsn: str) -> Finding:
    """Why there is no connection at all."""
    return error("Postgres does not let us in", _reason(refusal), _cure(str(refusal), dsn))


def _reason(refusal: PgrelayError) -> str:
    text = str(refusal)
    for head in ("source.dsn: ", "Postgres can't be reached: ", "connection failed: ", "connection is bad: "):
        text = text.removeprefix(head)
    return " ".join(text.split())


def _cure(text: str, dsn: str) -> str:
    given = conninfo_to_dict(dsn)
    names = {"user": given.get("user") or "<role>", "database": given.get("dbname") or "<database>"}
    fitting = (cure for fragments, cure in _CURES if _holds(text, fragments))
    return next(fitting, _OTHERWISE).format_map(names)


def _holds(text: str, fragments: Sequence[str]) -> bool:
    return any(fragment in text for fragment in fragments)


async def replication_findings(dsn: str) -> list[Finding]:
    """Connect as the stream does, ask who the server is, and leave."""
    try:
        async with Source(dsn) as source:
            await source.identify()
    except PgrelayError as refusal:
        what = "Postgres refuses a replication connection"
        return [error(what, _reason(refusal), _cure(str(refusal), dsn))]
    return [ok("replication connections are allowed")]
