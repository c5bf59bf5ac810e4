"""Databases whose encoding is not UTF-8. Their records are UTF-8."""

import re

import pytest

from tests.integration.changes import changes, created, deleted
from tests.integration.conftest import NewDatabase, NewRelay
from tests.integration.databases import Database
from tests.integration.relays import Relay


@pytest.fixture
def database(new_database: NewDatabase, encoding: str) -> Database:
    return new_database(encoding=encoding, template="template0", lc_collate="C", lc_ctype="C")


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("encoding", ["LATIN1", "EUC_JP", "UTF8"])
def test_text_of_every_encoding_is_converted_to_utf8(
    database: Database, new_relay: NewRelay, encoding: str, binary: bool
) -> None:
    text = {"LATIN1": "Köln \x85", "EUC_JP": "日本", "UTF8": "Köln 日本 🐘"}[encoding]
    name = text[1]
    database.execute(
        f'CREATE TABLE "{name}" (id int, "{name}" text, doc jsonb, words text[], PRIMARY KEY (id, "{name}"))'
    )
    relay = new_relay(source={"binary": binary}).start().wait_streaming()
    doc = f'{{"{name}": "{text}"}}'
    database.execute(f"INSERT INTO \"{name}\" VALUES (1, '{text}', '{doc}', ARRAY['{text}'])")
    database.execute(f'DELETE FROM "{name}"')
    relay.caught_up()
    key = {"id": 1, name: text}
    assert changes(relay.read(f"{relay.prefix}.public...{name.encode().hex()}..")) == [
        created(key, key | {"doc": doc, "words": [text]}),
        *deleted(key, key),
    ]


@pytest.mark.parametrize("encoding", ["LATIN1"])
def test_an_hstore_is_converted_as_text_and_refused_in_binary(
    database: Database, new_relay: NewRelay
) -> None:
    """In binary Postgres sends the sizes of the texts before their conversion."""
    database.execute("CREATE EXTENSION hstore; CREATE TABLE t (id int PRIMARY KEY, tags hstore)")
    relay = new_relay().start().wait_streaming()
    in_binary = new_relay("_binary", source={"binary": True}).start().wait_streaming()
    database.execute("INSERT INTO t VALUES (1, 'é=>ü')")
    relay.caught_up()
    assert changes(relay.records("t")) == [created({"id": 1}, {"id": 1, "tags": {"é": "ü"}})]
    assert in_binary.wait_exit() == 2
    assert in_binary.log[-1]["event"].startswith("public.t.tags: pgrelay does not read the binary form")
    assert not in_binary.has_topic(in_binary.topic("t"))


@pytest.mark.parametrize("encoding", ["SQL_ASCII"])
def test_utf8_bytes_pass_through_sql_ascii(database: Database, relay: Relay) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, word text)")
    database.execute("INSERT INTO t VALUES (1, 'Köln')")
    relay.caught_up()
    assert changes(relay.records("t")) == [created({"id": 1}, {"id": 1, "word": "Köln"})]


@pytest.mark.parametrize("encoding", ["SQL_ASCII"])
def test_bytes_that_are_not_utf8_stop_the_relay_before_any_later_row(
    database: Database, relay: Relay
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, word text)")
    database.execute("INSERT INTO t VALUES (1, 'fine')")
    database.execute("INSERT INTO t VALUES (2, convert_from('\\xfc', 'SQL_ASCII'))")
    database.execute("INSERT INTO t VALUES (3, 'later')")
    assert relay.wait_exit() == 4
    reason = relay.log[-1]["event"]
    assert "public.t.word" in reason
    assert "UTF-8" in reason
    assert [record.json_key for record in relay.records("t")] == [{"id": 1}]
    assert relay.start().wait_exit() == 4


@pytest.mark.parametrize("encoding", ["WIN1252"])
def test_bytes_that_the_server_can_not_convert_stop_the_relay_with_their_lsn(
    database: Database, relay: Relay
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, word text)")
    database.execute("INSERT INTO t VALUES (1, convert_from('\\x81', 'WIN1252'))")
    assert relay.wait_exit() == 4
    reason = relay.log[-1]["event"]
    assert re.search(r"0x81 in encoding .WIN1252. has no equivalent in encoding .UTF8.", reason)
    assert re.search(r"associated LSN [0-9A-F]+/[0-9A-F]+", reason)
