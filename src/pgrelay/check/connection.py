"""Whether Postgres accepts an ordinary connection and a replication connection."""

import os

from psycopg.conninfo import conninfo_to_dict

from pgrelay.check.findings import Finding, error, ok, warning
from pgrelay.errors import PgrelayError, SourceUnavailable, split_cure
from pgrelay.postgres.cures import cure
from pgrelay.postgres.source import Source


def connection_refused(refusal: PgrelayError, dsn: str) -> Finding:
    """The finding for why there is no connection at all."""
    away = isinstance(refusal, SourceUnavailable)
    what = "Postgres can't be reached" if away else "Postgres does not let us in"
    return _refusal_finding(what, refusal, dsn)


def _refusal_finding(what: str, refusal: PgrelayError, dsn: str) -> Finding:
    reason, fix = split_cure(refusal)
    fix = fix or cure(reason, dsn)
    for head in ("source.dsn: ", "Postgres can't be reached: ", "connection failed: ", "connection is bad: "):
        reason = reason.removeprefix(head)
    return error(what, " ".join(reason.split()), fix)


def host_findings(dsn: str) -> list[Finding]:
    """Warn if the DSN leaves it to chance which of several servers answers."""
    given = conninfo_to_dict(dsn)
    hosts = given.get("hostaddr") or given.get("host") or os.environ.get("PGHOST") or ""
    wanted = given.get("target_session_attrs") or os.environ.get("PGTARGETSESSIONATTRS") or "any"
    if "," not in str(hosts) or wanted != "any":
        return []
    return [
        warning(
            "source.dsn names several hosts, and uses the first that answers",
            "a run may connect to a standby and wait for its promotion, although another host is the primary",
            "add target_session_attrs=read-write to source.dsn",
        )
    ]


async def replication_findings(dsn: str) -> list[Finding]:
    """Connect as the stream does, ask who the server is, and leave."""
    try:
        async with Source(dsn) as source:
            await source.identify()
            encrypted = source.encrypted
    except PgrelayError as refusal:
        return [_refusal_finding("Postgres refuses a replication connection", refusal, dsn)]
    return [ok(f"replication connections are allowed, {'over TLS' if encrypted else 'without TLS'}")]
