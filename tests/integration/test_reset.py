"""A reset of the server that source.dsn leads to, which may not be the one that a relay streamed from."""

from collections.abc import Iterator

import pytest

from pgrelay.config import Config
from pgrelay.embedded.postgres import Postgres
from pgrelay.errors import SourceUnavailable
from pgrelay.postgres.source import Source
from pgrelay.relay.reset import reset
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.outcomes import WRONG
from tests.integration.faults.slots import exists
from tests.integration.servers import KafkaServer, PostgresServer, Servers
from tests.integration.standby import make_failover_slot, on, standby_of, wait_synced


@pytest.fixture
def primary(version: str) -> Iterator[Postgres]:
    """The test's own server."""
    with Postgres(version=version, contrib=True) as primary:
        yield primary


async def test_a_reset_refuses_a_dsn_that_leads_to_two_servers(
    servers: Servers, database: Database, kafka: KafkaServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would drop one server's slot, and delete what we keep for another's."""
    database.execute(f"SELECT pg_create_logical_replication_slot('{prefix}', 'pgoutput')")
    elsewhere = servers.postgres("16").dsn
    monkeypatch.setattr("pgrelay.relay.reset.Source", lambda dsn: Source(elsewhere))
    sections = {
        "source": {"dsn": database.dsn, "slot": prefix},
        "sink": {"kafka": {"bootstrap.servers": kafka.bootstrap}},
        "records": {"prefix": prefix},
    }
    with pytest.raises(SourceUnavailable, match="leads to two servers"):
        await reset(Config.model_validate(sections))
    assert exists(database, prefix)


@pytest.mark.parametrize("version", ["18"], indirect=True)
def test_a_reset_refuses_a_slot_that_a_standby_synchronises(
    primary: Postgres, new_relay: NewRelay, prefix: str
) -> None:
    database = Database(PostgresServer(primary.version, primary.dsn, primary), "postgres")
    make_failover_slot(database, prefix)
    with standby_of(primary, sync_replication_slots="on") as standby:
        second = on(standby, database)
        # The standby keeps the slot for good once the primary's has moved on.
        database.execute("SELECT pg_log_standby_snapshot()")
        database.execute(f"SELECT pg_replication_slot_advance('{prefix}', pg_current_wal_lsn())")
        wait_synced(database, second, prefix)
        done = new_relay(source={"dsn": second.dsn}).command("reset")
    assert done.returncode == WRONG
    why = f"source.dsn leads to a standby, where slot {prefix} is synchronised from its primary"
    assert why in done.stderr
