"""Queries of the catalogue, on real servers."""

import asyncio
import time
from unittest.mock import ANY

import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgrelay.check.table_queries import planned
from pgrelay.errors import SetupError, SourceUnavailable
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.publication_entries import entries
from pgrelay.postgres.publishable import create_publication
from pgrelay.postgres.subtransactions import rolled_back
from pgrelay.relay.tasks import cancel_and_wait
from tests.integration.databases import Database
from tests.integration.proxy import Proxy
from tests.integration.servers import PostgresServer, on_all_versions
from tests.integration.waiting import eventually

AT_ONCE = 4.0  # seconds; psycopg waits for five, twice, to have the server end a query


async def test_a_cancelled_query_that_waits_for_a_lock_ends_at_the_server(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backend that waits for a lock does not notice that its client has gone."""
    monkeypatch.setattr("pgrelay.postgres.catalog._STATEMENT_TIMEOUT", "500ms")
    database.execute("CREATE TABLE t (id int)")
    with database.connect() as other, other.transaction():
        other.execute("LOCK TABLE t")
        async with Catalog(database.dsn) as catalog:
            with pytest.raises(SourceUnavailable, match="has not answered a query on its catalogue"):
                await catalog.rows(sql.SQL("SELECT FROM public.t"))
            # The same connection goes on.
            assert await catalog.rows(
                sql.SQL("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'public.t'::regclass")
            ) == [(0,)]


async def test_a_table_dropped_during_the_query_of_publications_is_retried_later(
    database: Database,
) -> None:
    """The view lists the tables, and then opens each in turn. From 18.6 on it skips what is gone."""
    database.execute("CREATE TABLE t (id int); CREATE PUBLICATION p FOR ALL TABLES")
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = %s"
    async with Catalog(database.dsn) as catalog:
        if catalog.server_version < 160000:
            pytest.skip("its view opens no table")
        with database.connect() as other:
            oid = other.execute("SELECT 't'::regclass::oid::int").fetchall()[0]
            with other.transaction():
                other.execute("DROP TABLE t")
                look = asyncio.create_task(catalog.published_tables(["p"]))
                await eventually(lambda: other.execute(waits, oid).fetchall() == [(1,)], "the view to wait")
        assert await look == ([] if catalog.server_version >= 180006 else None)
        assert await catalog.published_tables(["p"]) == []


async def test_a_slow_query_of_publications_does_not_end_the_session(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would end each try, and the relay would never stream."""
    monkeypatch.setattr("pgrelay.postgres.catalog._STATEMENT_TIMEOUT", "100ms")
    database.execute("CREATE TABLE t (id int); CREATE PUBLICATION p FOR ALL TABLES")
    async with Catalog(database.dsn) as catalog:
        if catalog.server_version < 160000:
            pytest.skip("its view opens no table, so nothing delays it")
        with database.connect() as other, other.transaction():
            # Shorter than the time for which the query waits for a lock.
            other.execute("LOCK TABLE t")
            assert await catalog.published_tables(["p"]) is None
        assert await catalog.published_tables(["p"]) == [(ANY, "public", "t")]


async def test_cancelling_a_query_does_not_wait_for_a_silent_server(
    postgres: PostgresServer, database: Database
) -> None:
    """When a relay is asked to stop, the grace is for records on their way to Kafka."""
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = %s"
    with Proxy(int(str(conninfo_to_dict(postgres.dsn)["port"]))) as proxy, database.connect() as other:
        async with Catalog(make_conninfo(database.dsn, host="127.0.0.1", port=proxy.port)) as catalog:

            async def ask() -> None:
                await catalog.rows(sql.SQL("SELECT pg_sleep(9)"))

            query = asyncio.create_task(ask())
            await eventually(
                lambda: other.execute(asleep, (database.name,)).fetchall() == [(1,)], "the query to run"
            )
            proxy.hold_requests()
            proxy.hold_replies()
            began = time.monotonic()
            await cancel_and_wait(query)
            assert time.monotonic() - began < AT_ONCE


@on_all_versions
async def test_a_whole_schema_is_its_publishable_tables(database: Database) -> None:
    """Before PostgreSQL 15 each table is named, and the server refuses a statement with another relation."""
    database.execute("CREATE SCHEMA sales; CREATE TABLE sales.b (id int); CREATE TABLE sales.a (id int)")
    database.execute("CREATE UNLOGGED TABLE sales.fleeting (id int); CREATE VIEW sales.seen AS TABLE sales.a")
    database.execute("CREATE TABLE sales.parts (id int) PARTITION BY RANGE (id)")
    database.execute("CREATE TABLE sales.part PARTITION OF sales.parts FOR VALUES FROM (1) TO (9)")
    whole = [("sales", None)]
    async with Catalog(database.dsn) as catalog:
        await create_publication(catalog, "p", whole)
        held = {name for _, _, name in await catalog.published_tables(["p"]) or ()}
        meant = {table.name for table in (await planned(catalog, whole)).tables}
    assert {"a", "b", "part"} == held - {"parts"} == meant


@pytest.mark.parametrize("version", ["14"], indirect=True)
async def test_a_schema_without_publishable_tables_is_refused(database: Database) -> None:
    database.execute("CREATE SCHEMA sales; CREATE UNLOGGED TABLE sales.fleeting (id int)")
    async with Catalog(database.dsn) as catalog:
        with pytest.raises(SetupError, match="schema sales has no tables that can be published"):
            await create_publication(catalog, "p", [("sales", None)])


async def test_subtransactions_that_were_rolled_back_are_told_from_others(database: Database) -> None:
    """Those of a transaction that is still running are not rolled back, unless they were."""
    database.execute("CREATE TABLE t (id int)")
    insert = "INSERT INTO t VALUES (1) RETURNING xmin::text::bigint"
    async with Catalog(database.dsn) as catalog:
        with database.connect() as session:
            session.execute("BEGIN; SAVEPOINT a")
            [[back]] = session.execute(insert).fetchall()
            session.execute("ROLLBACK TO a; SAVEPOINT b")
            [[kept]] = session.execute(insert).fetchall()
            assert await rolled_back(catalog, [back, kept]) == [back]
            session.execute("COMMIT")
        many = [back, kept] * 11_000
        assert await rolled_back(catalog, many) == [back] * 11_000


async def test_an_entry_is_known_by_its_table_whatever_the_name(database: Database) -> None:
    database.execute("CREATE TABLE a (id int); CREATE TABLE b (id int); CREATE PUBLICATION p FOR TABLE a, b")
    async with Catalog(database.dsn) as catalog:
        (first, (_, entry)), (second, _) = sorted((await entries(catalog, ["p"])).items())
        database.execute("ALTER TABLE a RENAME TO c; ALTER TABLE b RENAME TO a; ALTER TABLE c RENAME TO b")
        swapped = await entries(catalog, ["p"])
        assert swapped[first] == ("public.b", entry)
        database.execute("DROP TABLE a; CREATE TABLE a (id int); ALTER PUBLICATION p ADD TABLE a")
        assert second not in await entries(catalog, ["p"])
        database.execute("ALTER PUBLICATION p DROP TABLE b; ALTER PUBLICATION p ADD TABLE b")
        name, again = (await entries(catalog, ["p"]))[first]
        assert name == "public.b"
        assert not again & entry
