"""The replication socket, on real servers."""

import pytest

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database


@pytest.mark.parametrize("version", ["14"], indirect=True)
def test_the_servers_own_reason_for_ending_the_stream_is_told(
    database: Database, new_relay: NewRelay
) -> None:
    """Though rows come before it, and libpq tells it only once: here, that decoding goes by the catalogue of
    the time of the change."""
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
