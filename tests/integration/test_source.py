"""The replication socket, on real servers."""

import asyncio
import ctypes
import os
import signal
import socket
import struct
import sys

import pytest
from psycopg.conninfo import make_conninfo

from pgrelay.errors import SourceUnavailable
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.source import Source
from pgrelay.postgres.timeline_history import TimelineHistory
from pgrelay.relay.setup import check_same_server
from pgrelay.wire.replication import StreamOptions
from tests.halting import halt
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.servers import Servers

LEFT = 60  # times


@pytest.mark.parametrize("version", ["14"], indirect=True)
def test_the_servers_reason_for_ending_the_stream_is_shown(database: Database, new_relay: NewRelay) -> None:
    """Rows come before it, and libpq reports it only once. Here decoding uses the catalogue of the time of
    the change."""
    relay = new_relay().start().wait_streaming()
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay.caught_up()
    relay.kill()
    database.execute("INSERT INTO t SELECT generate_series(1, 100)")
    database.execute("DROP PUBLICATION pgrelay")
    database.execute("INSERT INTO t VALUES (101)")
    database.execute("CREATE PUBLICATION pgrelay FOR ALL TABLES")
    assert relay.start().wait_exit() == 2
    assert 'publication "pgrelay" does not exist' in relay.log[-1]["event"]


async def test_a_server_that_does_not_answer_a_command_is_given_up(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a relay would wait for a hanging server for ever, and log nothing."""
    async with Source(database.dsn) as source:
        monkeypatch.setattr("pgrelay.postgres.source._COMMAND_TIMEOUT_S", 0.5)
        halt(source.walsender_pid)
        try:
            with pytest.raises(SourceUnavailable, match=r"has not answered IDENTIFY_SYSTEM for 0\.5 s"):
                await source.identify()
        finally:
            os.kill(source.walsender_pid, signal.SIGCONT)


@pytest.mark.skipif(sys.platform != "linux", reason="packets are swallowed as Linux can")
async def test_a_stream_that_the_network_drops_silently_is_given_up(
    database: Database, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither end notices, and queries beside it are answered. TCP's own timeout is long."""
    monkeypatch.setattr("pgrelay.postgres.connection._UNACKNOWLEDGED_MS", 500)
    database.execute("CREATE PUBLICATION p FOR ALL TABLES")
    database.execute(f"SELECT pg_create_logical_replication_slot('{prefix}', 'pgoutput')")
    async with Source(make_conninfo(database.dsn, host="127.0.0.1")) as source, asyncio.timeout(20):
        await source.start(prefix, 0, StreamOptions(1, ("p",)))
        swallow(source)
        with pytest.raises(SourceUnavailable, match="cut the connection"):
            await told_until_it_ends(source)


async def told_until_it_ends(source: Source) -> None:
    while True:
        source.send_status(0, 0)
        await source.wait_readable(0.1)
        source.read(100, 1 << 20)


def swallow(source: Source) -> None:
    """Let nothing arrive at its socket any more, not even acknowledgements: a filter that takes 0 bytes."""
    program = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
    attach = struct.pack("HP", 1, ctypes.addressof(program))
    with socket.socket(fileno=os.dup(source._socket)) as twin:
        twin.setsockopt(socket.SOL_SOCKET, 26, attach)  # SO_ATTACH_FILTER


async def test_a_wake_before_the_wait_is_not_lost(database: Database) -> None:
    async with Source(database.dsn) as source:
        source.wake()
        async with asyncio.timeout(20):
            await source.wait_readable(None)


async def test_the_slot_is_free_after_leaving_its_stream(database: Database, prefix: str) -> None:
    """Tried often, since without the wait it would still be so nineteen times of twenty."""
    database.execute("CREATE PUBLICATION p FOR ALL TABLES")
    database.execute(f"SELECT pg_create_logical_replication_slot('{prefix}', 'pgoutput')")
    with database.connect() as connection:
        for _ in range(LEFT):
            async with Source(database.dsn) as source:
                await source.start(prefix, 0, StreamOptions(1, ("p",)))
            in_use = "SELECT FROM pg_replication_slots WHERE slot_name = %s AND active"
            assert connection.execute(in_use, [prefix]).fetchone() is None


@pytest.mark.parametrize("version", ["10", "18"], indirect=True)
async def test_a_dsn_that_leads_to_two_servers_is_detected(servers: Servers, database: Database) -> None:
    """It names several hosts, and our two connections went to different ones."""
    async with Source(database.dsn) as source:
        async with Catalog(database.dsn) as catalog:
            await check_same_server(catalog, source)
        async with Catalog(servers.postgres("16").dsn) as elsewhere:
            with pytest.raises(SourceUnavailable, match="leads to two servers"):
                await check_same_server(elsewhere, source)


async def test_timeline_1_has_no_history(database: Database) -> None:
    """An empty history, not a missing one: this may be an old primary whose promoted standby we have read."""
    async with Source(database.dsn) as source:
        system = await source.identify()
        assert (system.timeline, system.history) == (1, TimelineHistory())


async def test_a_connection_goes_on_after_a_refused_command(database: Database) -> None:
    async with Source(database.dsn) as source:
        assert await source._history(7) is None
        assert (await source.identify()).timeline == 1
