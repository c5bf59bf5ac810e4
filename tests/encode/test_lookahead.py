"""Many new tables at once: asking ahead changes only the number of questions."""

import json
from dataclasses import replace
from typing import Final, Literal

import pytest

from pgrelay.assembly.events import Event
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.needs import Announcement, FactsNeeded
from pgrelay.encode.plan import RelationFacts
from pgrelay.encode.records import Record, Segment
from pgrelay.encode.selection import Selection
from tests.encode.encoding import NO_FACTS, NOW, OPTIONS, encoder_of, segments, transaction
from tests.wire import build
from tests.wire.build import INT4, Column, xlog_data

TABLES: Final = 5


def relation(table: int, identity: str = "d", xid: int | None = None, column: str = "id") -> bytes:
    columns = [Column(column, INT4, key=True)]
    return build.relation(100 + table, "public", f"t{table}", identity, columns, xid)


def first_rows(xid: int | None = None) -> list[bytes]:
    """A Relation and an insert for each table in turn."""
    return [
        message
        for table in range(TABLES)
        for message in (relation(table, xid=xid), build.insert(100 + table, [str(table)], xid))
    ]


def encode_ahead(encoder: Encoder, events: list[Event]) -> tuple[list[Record], list[str]]:
    """The records if everything asked for ahead is answered, and the questions: F, A."""
    asked: list[str] = []
    encoder.feed(events)
    out = encoder.encode(NOW)
    while (need := encoder.need) is not None:
        if isinstance(need, FactsNeeded):
            asked.append(f"F{1 + len(need.ahead)}")
            encoder.provide_facts(NO_FACTS, [NO_FACTS] * len(need.ahead))
        else:
            assert isinstance(need, Announcement)
            asked.append(f"A{1 + len(need.ahead)}")
            encoder.confirm_topic(None, [None] * len(need.ahead))
        out += encoder.encode(NOW)
    return [record for segment in out if isinstance(segment, Segment) for record in segment.records], asked


@pytest.mark.parametrize("streamed", [False, True])
def test_all_tables_of_a_transaction_are_asked_for_at_once(streamed: bool) -> None:
    events = transaction(*first_rows(755 if streamed else None), streamed=streamed)
    records, asked = encode_ahead(encoder_of(), events)
    assert asked == [f"F{TABLES}", f"A{TABLES}"]
    assert records == [record for segment in segments(encoder_of(), events) for record in segment.records]


@pytest.mark.parametrize("xid", [None, 755])
def test_a_table_truncated_first_is_announced_as_of_the_truncate(xid: int | None) -> None:
    """Otherwise the truncate would come before the schema."""
    streamed = xid is not None
    events = [
        *transaction(*first_rows(xid)[:2], streamed=streamed, commit_lsn=0x1000),
        *transaction(
            relation(1, xid=xid), build.truncate([101, 999], xid=xid), streamed=streamed, commit_lsn=0x2000
        ),
        *transaction(build.insert(101, ["1"], xid), streamed=streamed, commit_lsn=0x3000),
    ]
    encoder = encoder_of()
    encoder.feed(events)
    encoder.encode(NOW)
    encoder.provide_facts(NO_FACTS, [NO_FACTS])
    encoder.encode(NOW)
    assert isinstance(encoder.need, Announcement)
    (ahead,) = encoder.need.ahead
    assert json.loads(ahead.record[2] or b"")["lsn"] == 0x2000


def test_tables_of_the_following_transactions_are_asked_for_too() -> None:
    rows = first_rows()
    events = [
        event
        for number in range(TABLES)
        for event in transaction(*rows[2 * number : 2 * number + 2], commit_lsn=0x1000 * (number + 1))
    ]
    encoder = encoder_of()
    encoder.feed(events)
    encoder.encode(NOW)
    assert isinstance(encoder.need, FactsNeeded)
    encoder.provide_facts(NO_FACTS, [NO_FACTS] * (TABLES - 1))
    encoder.encode(NOW)
    assert isinstance(encoder.need, Announcement)
    announced = [encoder.need, *encoder.need.ahead]
    assert [json.loads(one.record[2] or b"")["lsn"] for one in announced] == [
        0x1000 * (number + 1) for number in range(TABLES)
    ]
    assert {one.topic for one in announced} == {f"app.public.t{number}" for number in range(TABLES)}


def test_a_relation_without_rows_is_not_asked_for() -> None:
    _, asked = encode_ahead(encoder_of(), transaction(relation(1), relation(0), build.insert(100, ["1"])))
    assert asked == ["F1", "A1"]


def test_tables_that_are_truncated_together_are_asked_for_at_once() -> None:
    relations = [relation(table) for table in range(TABLES)]
    truncate = build.truncate([100 + table for table in range(TABLES)])
    _, asked = encode_ahead(encoder_of(), transaction(*relations, truncate))
    assert asked == [f"F{TABLES}", f"A{TABLES}"]


def test_tables_that_were_described_long_before_are_asked_for_at_once() -> None:
    """As after a PREPARE, whose relations come between transactions."""
    encoder = encoder_of()
    encode_ahead(encoder, [xlog_data(relation(table)) for table in range(TABLES)])
    rows = [build.insert(100 + table, ["1"]) for table in range(TABLES)]
    _, asked = encode_ahead(encoder, transaction(*rows))
    assert asked == [f"F{TABLES}", f"A{TABLES}"]


def test_a_relation_that_was_described_long_before_and_changed_is_not_announced_ahead() -> None:
    encoder = encoder_of()
    encode_ahead(encoder, [xlog_data(relation(0)), xlog_data(relation(1))])
    events = transaction(
        build.insert(100, ["1"]),
        build.insert(101, ["1"]),
        relation(1, column="key"),
        build.insert(101, ["2"]),
    )
    records, asked = encode_ahead(encoder, events)
    assert asked == ["F1", "A1", "F1", "A1", "F1", "A1"]
    assert [json.loads(record[1] or b"") for record in records] == [{"id": 1}, {"id": 1}, {"key": 2}]


def test_a_table_described_twice_differently_is_not_announced_ahead() -> None:
    events = transaction(
        relation(0),
        build.insert(100, ["1"]),
        relation(1),
        build.insert(101, ["1"]),
        relation(1, column="key"),
        build.insert(101, ["2"]),
    )
    records, asked = encode_ahead(encoder_of(), events)
    assert [question for question in asked if question[0] == "A"] == ["A1"] * 3
    assert [json.loads(record[1] or b"") for record in records] == [{"id": 1}, {"id": 1}, {"key": 2}]


def test_an_excluded_table_is_not_asked_for_ahead() -> None:
    options = replace(OPTIONS, selection=Selection(exclude=(r"public\.t[1-9]",)))
    records, asked = encode_ahead(encoder_of(options), transaction(*first_rows()))
    assert asked == ["F1", "A1"]
    assert [record[0] for record in records] == ["app.public.t0"]


def test_a_tables_error_waits_for_its_turn() -> None:
    """Rows of other tables come before it."""
    encoder = encoder_of(routes=[(r"public\.t3", "app.public.t0")])
    encoder.feed(transaction(*first_rows()))
    encoder.encode(NOW)
    assert isinstance(encoder.need, FactsNeeded)
    encoder.provide_facts(NO_FACTS, [NO_FACTS] * len(encoder.need.ahead))
    encoder.encode(NOW)
    assert isinstance(encoder.need, Announcement)
    assert len(encoder.need.ahead) == TABLES - 2


@pytest.mark.parametrize("form", ["json", "avro"])
def test_a_column_that_the_flat_envelope_refuses_waits_for_its_turn(form: Literal["json", "avro"]) -> None:
    encoder = encoder_of(replace(OPTIONS, format=form, envelope="flat"))
    encoder.feed(transaction(*first_rows()[:2], relation(1, column="__op"), build.insert(101, ["1"])))
    encoder.encode(NOW)
    encoder.provide_facts(NO_FACTS, [NO_FACTS])
    encoder.encode(NOW)
    assert isinstance(encoder.need, Announcement)
    assert encoder.need.ahead == ()


def test_under_full_facts_learnt_ahead_are_used_once() -> None:
    keyed = RelationFacts(primary_key=("id",))
    rows = [relation(0), build.insert(100, ["0"]), relation(1, "f"), build.insert(101, ["1"])]
    encoder = encoder_of()
    encoder.feed(transaction(*rows))
    encoder.encode(NOW)
    encoder.provide_facts(NO_FACTS, [keyed])
    for _ in range(3):
        if isinstance(encoder.need, Announcement):
            encoder.confirm_topic()
        encoder.encode(NOW)
    assert encoder.need is None
    encoder.feed(transaction(relation(1, "f"), build.insert(101, ["2"]), commit_lsn=0x2800))
    encoder.encode(NOW)
    assert isinstance(encoder.need, FactsNeeded)


def test_a_need_names_the_transaction_of_each_relation_ahead() -> None:
    """The catalogue may not show all of them yet."""
    events = [
        *transaction(*first_rows()[:4], xid=7, commit_lsn=0x1000),
        *transaction(*first_rows()[4:], xid=8, commit_lsn=0x2000),
    ]
    encoder = encoder_of()
    encoder.feed(events)
    encoder.encode(NOW)
    assert isinstance(encoder.need, FactsNeeded)
    assert (encoder.need.xid, tuple(other.xid for other in encoder.need.ahead)) == (7, (7, 8, 8, 8))
