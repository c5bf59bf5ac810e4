"""What changes in a database and is no row of a published table: the slot's stream has none of it."""

import pytest

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.servers import on_full_versions
from tests.integration.topics import topic_names


@on_full_versions
def test_only_rows_of_tables_are_relayed(database: Database, new_relay: NewRelay, prefix: str) -> None:
    database.execute(
        "CREATE TABLE t (id serial PRIMARY KEY, note text);"
        "CREATE MATERIALIZED VIEW seen AS SELECT id FROM t;"
        "CREATE UNIQUE INDEX ON seen (id);"
        "CREATE UNLOGGED TABLE fleeting (id int PRIMARY KEY);"
        "CREATE VIEW v AS SELECT id FROM t"
    )
    relay = new_relay().start().wait_streaming()
    database.execute("INSERT INTO v DEFAULT VALUES")
    database.execute("REFRESH MATERIALIZED VIEW seen")
    database.execute("REFRESH MATERIALIZED VIEW CONCURRENTLY seen")
    database.execute("INSERT INTO fleeting VALUES (1)")
    database.execute("CREATE TEMPORARY TABLE passing (id int PRIMARY KEY); INSERT INTO passing VALUES (1)")
    database.execute("SELECT nextval('t_id_seq'), lo_from_bytea(0, 'large')")
    database.execute("COMMENT ON TABLE t IS 'ours'; ALTER TABLE t ALTER note TYPE bytea USING note::bytea")
    database.execute("VACUUM FULL t")
    database.execute("CREATE TABLE made AS SELECT id FROM t")
    database.execute("INSERT INTO t DEFAULT VALUES")
    relay.caught_up()
    assert relay.ids("t", 2) == [1, 3]
    assert [record.json["after"]["id"] for record in relay.records("made", 1)] == [1]
    topics = {topic.removeprefix(f"{prefix}.public.") for topic in topic_names(relay.kafka.bootstrap)}
    assert not topics & {"seen", "fleeting", "passing", "v"}


@pytest.mark.parametrize("forced", ["ENABLE", "FORCE"])
def test_row_level_security_hides_no_row(database: Database, new_relay: NewRelay, forced: str) -> None:
    """The relay's role could not read the rows by a query."""
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t ENABLE ROW LEVEL SECURITY;"
        f"ALTER TABLE t {forced} ROW LEVEL SECURITY; CREATE POLICY p ON t USING (false)"
    )
    relay = new_relay().start().wait_streaming()
    database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    assert relay.ids("t", 1) == [1]
