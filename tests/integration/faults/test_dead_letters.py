"""Undeliverable records: `errors.on_record` and `pgrelay skip`: rows 4 and 38 of docs/guarantees.md."""

import json
import subprocess
from typing import Any

import pytest

from pgrelay.lsn import format_lsn
from tests.integration.conftest import NewDatabase, NewRelay
from tests.integration.databases import Database
from tests.integration.faults.outcomes import UNDELIVERABLE, WRONG, last_words
from tests.integration.faults.slots import exists
from tests.integration.relays import Relay
from tests.integration.servers import KafkaServer
from tests.integration.topics import Record, create_topic

TABLE = "CREATE TABLE t (id int PRIMARY KEY, word text)"
POISON = "convert_from('\\x4bf66c6e', 'SQL_ASCII')"
SET_ASIDE = {"on_record": "dead_letter"}
DELIVERIES = ["at_least_once", "exactly_once"]

in_both_ways = pytest.mark.parametrize("delivery", DELIVERIES)


@pytest.fixture
def database(new_database: NewDatabase) -> Database:
    """A database in SQL_ASCII, which accepts bytes that are no text."""
    return new_database(encoding="SQL_ASCII", template="template0", lc_collate="C", lc_ctype="C")


def letters(relay: Relay, count: int) -> list[Record]:
    return relay.read(f"{relay.prefix}.dead_letter", count)


def headers_of(record: Record) -> dict[str, Any]:
    return {name: (value or b"").decode() for name, value in record.headers}


def incompressible(size: int) -> str:
    return f"(SELECT string_agg(md5(i::text), '') FROM generate_series(1, {size} / 32) i)"


@in_both_ways
def test_a_value_that_can_not_be_encoded_becomes_a_dead_letter(
    database: Database, new_relay: NewRelay, delivery: str
) -> None:
    """Row 38."""
    database.execute(TABLE)
    relay = new_relay(errors=SET_ASIDE, sink={"delivery": delivery}).start().wait_streaming()
    database.execute(f"INSERT INTO t VALUES (1, 'a'), (2, {POISON}), (3, 'b')")
    database.execute("INSERT INTO t VALUES (4, 'c')")
    relay.caught_up()
    assert relay.ids("t") == [1, 3, 4]
    (letter,) = letters(relay, 1)
    assert letter.value == b"K\xf6ln"
    assert letter.json_key == {"id": 2}
    headers = headers_of(letter)
    assert (headers["table"], headers["column"], headers["op"]) == ("public.t", "word", "c")
    assert "not UTF-8" in headers["error"]
    assert json.loads(headers["row"]) == {"id": "2", "word": "K\\xf6ln"}
    first, third = relay.records("t")[:2]
    assert (first.json["source"]["seq"], int(headers["seq"]), third.json["source"]["seq"]) == (0, 1, 2)
    told = relay.wait_event("set aside as a dead letter")
    assert headers["lsn"] in told["error"]
    assert relay.metric("pgrelay_dead_letters_total") == 1


@pytest.mark.parametrize("limit", ["producer", "broker"])
@in_both_ways
def test_only_records_that_are_too_large_become_dead_letters(
    database: Database, kafka: KafkaServer, new_relay: NewRelay, limit: str, delivery: str
) -> None:
    """Row 4: a broker refuses the whole batch, without saying which record it means."""
    database.execute(TABLE)
    relay = new_relay(errors=SET_ASIDE, sink={"delivery": delivery})
    most = "10000" if limit == "broker" else "3000000"
    size = 100_000 if limit == "broker" else 1_500_000
    create_topic(kafka.bootstrap, relay.topic("t"), max_message_bytes=most)
    relay.start().wait_streaming()
    database.execute(
        f"INSERT INTO t SELECT i, CASE WHEN i % 100 = 50 THEN {incompressible(size)} ELSE md5(i::text) END "
        "FROM generate_series(1, 300) i"
    )
    relay.caught_up()
    seen = relay.ids("t")
    assert set(seen) == {number for number in range(1, 301) if number % 100 != 50}
    assert delivery == "at_least_once" or seen == sorted(set(seen))
    found = letters(relay, 3)
    assert {letter.json_key["id"] for letter in found} == {50, 150, 250}
    for letter in found:
        headers = headers_of(letter)
        limiting = (
            f"topic {relay.topic('t')} takes" if limit == "broker" else "message.max.bytes in sink.kafka is"
        )
        assert limiting in headers["error"]
        assert headers["table"] == "public.t"
        assert int(headers.get("value_bytes", len(letter.value or b""))) > size


def test_a_truncate_for_a_compacted_topic_becomes_a_dead_letter(
    database: Database, kafka: KafkaServer, new_relay: NewRelay
) -> None:
    database.execute(TABLE)
    relay = new_relay(errors=SET_ASIDE)
    create_topic(kafka.bootstrap, relay.topic("t"), cleanup_policy="compact")
    relay.start().wait_streaming()
    database.execute("INSERT INTO t VALUES (1, 'a')")
    database.execute("TRUNCATE t")
    database.execute("INSERT INTO t VALUES (2, 'b')")
    relay.caught_up()
    assert relay.ids("t")[-1] == 2
    (letter,) = letters(relay, 1)
    assert (headers_of(letter)["op"], letter.key) == ("t", None)


# --- `pgrelay skip`


def skip(relay: Relay, lsn: str) -> subprocess.CompletedProcess[str]:
    return relay.command("skip", "--lsn", lsn)


@in_both_ways
@pytest.mark.parametrize("named", ["transaction", "change"])
def test_skip_skips_exactly_one_transaction(
    database: Database, new_relay: NewRelay, delivery: str, named: str
) -> None:
    """Row 38: by the LSN of its commit, as in the log, or by that of the change, which the log names too."""
    database.execute(TABLE)
    relay = new_relay(sink={"delivery": delivery}).start().wait_streaming()
    relay.stop()
    database.execute("INSERT INTO t VALUES (1, 'before')")
    database.execute(f"INSERT INTO t VALUES (2, 'with it'), (3, {POISON})")
    database.execute("INSERT INTO t VALUES (4, 'after')")
    words = last_words(relay.start(), UNDELIVERABLE)
    command = relay.log[-1]["to_skip"]
    lsn = command.split()[-1] if named == "transaction" else words.split("(LSN ")[1].rstrip(")")

    done = skip(relay, lsn)
    assert done.returncode == 0, done.stderr
    told = f"left out the transaction that commits at {command.split()[-1]}, with 2 changes"
    if delivery == "at_least_once":
        told += "; with at_least_once, some of its records may be in Kafka already"
    assert done.stdout == f"{told}\n"
    assert "left out a transaction, as asked" in done.stderr
    relay.start().wait_streaming()
    relay.caught_up()
    assert set(relay.ids("t")) == {1, 4}
    assert delivery == "at_least_once" or relay.ids("t") == [1, 4]


def test_skip_with_an_lsn_without_a_commit_skips_nothing(database: Database, new_relay: NewRelay) -> None:
    database.execute(TABLE)
    relay = new_relay().start().wait_streaming()
    relay.stop()
    database.execute("INSERT INTO t VALUES (1, 'a')")
    done = skip(relay, format_lsn(relay.confirmed_lsn() + 1))
    assert done.returncode == WRONG
    assert "nothing was left out: no transaction commits at" in done.stderr
    assert relay.ids("t") == [1]


def test_skip_does_not_create_a_missing_slot(database: Database, new_relay: NewRelay) -> None:
    database.execute("CREATE PUBLICATION pgrelay FOR ALL TABLES")
    relay = new_relay()
    done = skip(relay, "0/1")
    assert f"source.slot: {relay.prefix} does not exist" in done.stderr
    assert done.returncode == WRONG
    assert not exists(database, relay.prefix)


def test_skip_without_slot_and_publication_asks_for_the_right_slot(
    database: Database, new_relay: NewRelay
) -> None:
    relay = new_relay(source={"dsn": database.dsn})
    done = skip(relay, "0/1")
    assert f"source.slot: {relay.prefix} does not exist in database {database.name}" in done.stderr
    assert "correct source.slot or source.dsn" in done.stderr
    assert "CREATE PUBLICATION" not in done.stderr
    assert done.returncode == WRONG


def test_skip_refuses_while_the_relay_runs(new_relay: NewRelay) -> None:
    relay = new_relay().start().wait_streaming()
    done = skip(relay, "0/1")
    assert done.returncode == WRONG
    assert "stop that relay first" in done.stderr
    assert relay.running


SMALL, TOO_LARGE = "'small'", "repeat('x', 2000000)"


@in_both_ways
@pytest.mark.parametrize("refused", ["row", "message", "both"])
def test_skip_distinguishes_a_message_from_a_transaction_at_the_same_lsn(
    database: Database, new_relay: NewRelay, delivery: str, refused: str
) -> None:
    """Only the refused one is skipped; if both are refused, one after the other."""
    body = SMALL if refused == "message" else TOO_LARGE
    content = SMALL if refused == "row" else TOO_LARGE
    database.execute(TABLE)
    relay = new_relay(sink={"delivery": delivery}).start().wait_streaming()
    relay.stop()
    message = f"SELECT pg_logical_emit_message(false, 'm', {content})"
    database.execute(f"BEGIN; INSERT INTO t VALUES (1, {body}); {message}; COMMIT")
    database.execute("INSERT INTO t VALUES (2, 'after')")
    for _ in range(2 if refused == "both" else 1):
        last_words(relay.start(), UNDELIVERABLE)
        done = skip(relay, relay.log[-1]["to_skip"].split()[-1])
        assert done.returncode == 0, done.stderr
    relay.start().wait_streaming()
    relay.caught_up()
    assert set(relay.ids("t")) == ({1, 2} if refused == "message" else {2})
    messages = relay.read(f"{relay.prefix}.message")
    assert len(messages) == (1 if refused == "row" else 0)


@in_both_ways
def test_two_transactions_in_a_row_can_be_skipped_one_by_one(
    database: Database, new_relay: NewRelay, delivery: str
) -> None:
    """With exactly once they would share a Kafka transaction, which the second would make fail for both."""
    database.execute(TABLE)
    relay = new_relay(sink={"delivery": delivery}).start().wait_streaming()
    relay.stop()
    for number in (1, 2):
        database.execute(f"INSERT INTO t VALUES ({number}, {POISON})")
    database.execute("INSERT INTO t VALUES (3, 'after')")
    for _ in range(2):
        last_words(relay.start(), UNDELIVERABLE)
        done = skip(relay, relay.log[-1]["to_skip"].split()[-1])
        assert done.returncode == 0, done.stderr
    relay.start().wait_streaming()
    relay.caught_up()
    assert relay.ids("t") == [3]
