"""pgrelay replaces a Debezium connector, with the same slot, publication and topics."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from pgrelay.embedded.jars import Unavailable
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.debezium.connector import connector
from tests.integration.servers import KafkaServer
from tests.integration.topics import read_topic
from tests.unavailable import skip


@pytest.mark.timeout(600)
def test_pgrelay_continues_debeziums_topic_without_missing_changes(
    database: Database, kafka: KafkaServer, new_relay: NewRelay, prefix: str, tmp_path: Path
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    database.execute("CREATE PUBLICATION dbz_publication FOR TABLE t")
    topic = f"{prefix}.public.t"
    relay = new_relay(source={"publications": ["dbz_publication"], "create": False})
    with ExitStack() as stack:
        options = {"publication.name": "dbz_publication"}
        try:
            stack.enter_context(connector(database, kafka, prefix, tmp_path, options))
        except Unavailable as error:
            skip(error)
        database.execute("INSERT INTO t VALUES (1, 0), (2, 0)")
        database.execute("UPDATE t SET v = 1 WHERE id = 1")
        by_debezium = read_topic(kafka.bootstrap, topic, 3, timeout=120)
    database.execute("UPDATE t SET v = 2 WHERE id = 1")
    relay.start().wait_streaming()
    database.execute("UPDATE t SET v = 3 WHERE id = 1")
    relay.caught_up()
    records = read_topic(kafka.bootstrap, topic)
    assert records[:3] == by_debezium
    assert {record.key for record in records} == {b'{"id":1}', b'{"id":2}'}
    # A repeated change has the same LSN as before.
    changes = {record.json["source"]["lsn"]: record.json["after"] for record in records}
    assert [changes[lsn] for lsn in sorted(changes)] == [
        {"id": 1, "v": 0},
        {"id": 2, "v": 0},
        {"id": 1, "v": 1},
        {"id": 1, "v": 2},
        {"id": 1, "v": 3},
    ]
    assert [record.json["source"]["connector"] for record in records] == ["postgresql"] * len(records)
    ours = [record for record in records[3:] if "commit_lsn" in record.json["source"]]
    assert ours == records[3:]
