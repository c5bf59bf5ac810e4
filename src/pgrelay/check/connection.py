"""Whether Postgres lets us in, on an ordinary connection and on a replication connection."""

from pgrelay.check.findings import Finding, error, ok
from pgrelay.errors import PgrelayError
from pgrelay.postgres.cures import cure
from pgrelay.postgres.source import Source


def refused_connection(refusal: PgrelayError, dsn: str) -> Finding:
    """Why there is no connection at all."""
    return _refused("Postgres does not let us in", str(refusal), dsn)


def _refused(what: str, text: str, dsn: str) -> Finding:
    fix = cure(text, dsn)
    reason = text.removesuffix(f"; {fix}")
    for head in ("source.dsn: ", "Postgres can't be reached: ", "connection failed: ", "connection is bad: "):
        reason = reason.removeprefix(head)
    return error(what, " ".join(reason.split()), fix)


async def replication_findings(dsn: str) -> list[Finding]:
    """Connect as the stream does, ask who the server is, and leave."""
    try:
        async with Source(dsn) as source:
            await source.identify()
    except PgrelayError as refusal:
        return [_refused("Postgres refuses a replication connection", str(refusal), dsn)]
    return [ok("replication connections are allowed")]
