"""Another server answers where ours did: row 9 of faults.md, while the relay runs."""

import shutil
import subprocess
from pathlib import Path

from pgrelay.embedded.postgres import Postgres, create_database
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.outcomes import LOST, last_words
from tests.integration.faults.own_servers import own_postgres
from tests.integration.relays import Relay


@own_postgres()
def test_a_server_that_was_restored_from_a_backup(server: Postgres, database: Database, relay: Relay) -> None:
    """What it will write from now on has the LSNs of what we have relayed."""
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
    """With owners and rights: Postgres insists on them."""
    subprocess.run(["cp", "-a", source, target], check=True)


@own_postgres()
def test_a_server_that_is_another(
    server: Postgres, database: Database, new_relay: NewRelay, version: str
) -> None:
    """Although database, slot and role have the names of ours."""
    relay = new_relay(source={"dsn": database.dsn}).start().wait_streaming()
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay.caught_up()
    server.stop()
    # It must not come while the database is not there yet, which is another mistake.
    relay.pause()
    with Postgres(version=version, contrib=True, port=server.port) as other:
        create_database(other.dsn, database.name)
        relay.resume()
        assert "source.dsn leads to cluster" in last_words(relay, LOST)
