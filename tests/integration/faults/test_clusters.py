"""Another server answers at our server's address while the relay runs: row 9 of docs/guarantees.md."""

import shutil
import subprocess
from pathlib import Path

from pgrelay.embedded.postgres import Postgres, create_database
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.outcomes import LOST, WAITING, last_words
from tests.integration.faults.own_servers import own_postgres
from tests.integration.relays import Relay


@own_postgres()
def test_a_server_restored_from_a_backup_is_refused(
    server: Postgres, database: Database, relay: Relay
) -> None:
    """Its new WAL will have the LSNs of what we have relayed."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay.caught_up()
    server.stop()
    backup = server.data.with_name("backup")
    copy(server.data, backup)
    server.start()
    database.execute("INSERT INTO t SELECT generate_series(1, 1000)")
    relay.caught_up()
    server.stop()
    shutil.rmtree(server.data)
    copy(backup, server.data)
    server.start()
    assert "it was restored from a backup, or lost WAL" in last_words(relay, LOST)


def copy(source: Path, target: Path) -> None:
    """Copy with owners and permissions, which Postgres requires."""
    subprocess.run(["cp", "-a", source, target], check=True)


@own_postgres()
def test_another_cluster_is_refused(
    server: Postgres, database: Database, new_relay: NewRelay, version: str
) -> None:
    """Although its database, slot and role have the same names as ours."""
    relay = new_relay(source={"dsn": database.dsn}).start().wait_streaming()
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay.caught_up()
    server.stop()
    # The relay must not connect before the database exists, which would be another error.
    relay.pause()
    with Postgres(version=version, contrib=True, port=server.port) as other:
        create_database(other.dsn, database.name)
        relay.resume()
        assert "source.dsn leads to cluster" in last_words(relay, LOST)


@own_postgres()
def test_another_cluster_is_refused_by_a_relay_that_waits_for_the_slot(
    server: Postgres, database: Database, new_relay: NewRelay, version: str
) -> None:
    """It has streamed nothing, but its producer is already the slot's of our cluster."""
    sections = {"source": {"dsn": database.dsn}, "sink": {"delivery": "exactly_once"}}
    relay = new_relay(**sections).start().wait_streaming()
    database.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    relay.caught_up()
    other_relay = new_relay(**sections).start()
    assert "is active" in other_relay.wait_event(WAITING)["reason"]
    other_relay.pause()
    relay.kill()
    server.stop()
    with Postgres(version=version, contrib=True, port=server.port) as other:
        create_database(other.dsn, database.name)
        database.execute("CREATE PUBLICATION pgrelay FOR ALL TABLES")
        database.execute(f"SELECT pg_create_logical_replication_slot('{relay.prefix}', 'pgoutput')")
        other_relay.resume()
        assert "has a position of slot" in last_words(other_relay, LOST)
