"""Questions to the catalogue, on real servers."""

import pytest
from psycopg import sql

from pgrelay.errors import SourceUnavailable
from pgrelay.postgres.catalog import Catalog
from tests.integration.databases import Database


async def test_a_query_that_waits_for_a_lock_ends_at_the_server_too(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backend that waits for a lock does not notice that its client has gone."""
    monkeypatch.setattr("pgrelay.postgres.catalog._SERVER_GIVES_UP", "500ms")
    database.execute("CREATE TABLE t (id int)")
    with database.connect() as other, other.transaction():
        other.execute("LOCK TABLE t")
        async with Catalog(database.dsn) as catalog:
            with pytest.raises(SourceUnavailable, match="has not answered a query on its catalogue"):
                await catalog.rows(sql.SQL("SELECT FROM t"))
            # It is the same connection that goes on.
            assert await catalog.rows(
                sql.SQL("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 't'::regclass")
            ) == [(0,)]
