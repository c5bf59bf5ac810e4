"""Whether this machine's clock and the server's agree: the lag metrics depend on it, order never does."""

import time
from typing import Final

from psycopg import sql

from pgrelay.check.findings import Finding, ok, warning
from pgrelay.figures import duration
from pgrelay.postgres.catalog import Catalog

# An hour without NTP may cause a smaller difference, and reporting that helps nobody.
_TOLERATED_S: Final = 5.0


async def clock_findings(catalog: Catalog) -> list[Finding]:
    """Compare the server's answer with the midpoint between request and response."""
    asked = time.time()
    rows = await catalog.rows(sql.SQL("SELECT extract(epoch FROM clock_timestamp())::float8"))
    return [clock_difference(rows[0][0] - (asked + time.time()) / 2)]


def clock_difference(server_ahead_s: float) -> Finding:
    if abs(server_ahead_s) < _TOLERATED_S:
        return ok("this machine's clock and the server's agree")
    way = "ahead of" if server_ahead_s > 0 else "behind"
    return warning(
        f"the server's clock is {duration(abs(server_ahead_s))} {way} this machine's",
        "pgrelay_lag_seconds is wrong by as much (but never negative), and so is ts_ms minus source.ts_ms",
        "run NTP (chronyd, systemd-timesyncd) on both machines",
    )
