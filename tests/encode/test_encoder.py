"""Events to segments: what the encoder needs and when, and with which Relation each row is read."""

from dataclasses import replace
from typing import Any, Final, Literal

import pytest

from pgrelay.assembly.events import Event, TransactionBegin, Watermark
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.needs import Announcement, FactsNeeded, TopicNeeded
from pgrelay.encode.plan import RelationFacts
from pgrelay.encode.records import Segment
from pgrelay.encode.selection import Selection
from pgrelay.errors import ProtocolError, SetupError
from tests.encode.encoding import (
    NOW,
    OPTIONS,
    encoder_of,
    facts_asked,
    outcomes,
    records_of,
    segments,
    transaction,
)
from tests.wire import build
from tests.wire.build import INT4, NOON, Column, xlog_data

OID: Final = 16384
ITEMS: Final = 16385


def relation(*names: str, oid: int = OID, xid: int | None = None, identity: str = "d") -> bytes:
    """A table whose first column is the key."""
    columns = [Column(name, INT4, key=not index) for index, name in enumerate(names)]
    return build.relation(oid, "public", f"table_{oid}", identity, columns, xid)


def insert(number: int, oid: int = OID, xid: int | None = None) -> bytes:
    return build.insert(oid, [str(number)], xid)


def afters(events: list[Event], encoder: Encoder, facts: RelationFacts | None = None) -> list[dict[str, Any]]:
    found = records_of(events, encoder, facts or RelationFacts())
    return [record.value["after"] for record in found]


# --- Segments


def test_a_transaction_is_a_segment() -> None:
    encoder = encoder_of()
    records_of(transaction(relation("id"), insert(0)), encoder)
    (segment,) = segments(encoder, transaction(insert(1), insert(2)))
    assert segment.begin == TransactionBegin(754, 0x1800, NOON)
    assert segment.end_lsn == 0x1808
    assert len(segment.records) == 2


def test_a_transaction_without_records_is_a_segment_too() -> None:
    (segment,) = segments(encoder_of(), transaction())
    assert (segment.begin is not None, segment.records, segment.end_lsn) == (True, [], 0x1808)


def test_a_transaction_in_pieces_has_several_segments() -> None:
    encoder = encoder_of()
    records_of(transaction(relation("id"), insert(0)), encoder)
    begin, first, second, end = transaction(insert(1), insert(2))
    found = [segments(encoder, batch) for batch in ([begin, first], [], [second], [end])]
    assert [(it.begin is not None, len(it.records), it.end_lsn) for (it,) in found] == [
        (True, 1, None),
        (False, 0, None),
        (False, 1, None),
        (False, 0, 0x1808),
    ]


def test_positions_keep_their_place_between_transactions() -> None:
    first, second = transaction(commit_lsn=0x1800), transaction(commit_lsn=0x1900)
    out = list(
        outcomes(encoder_of(), [Watermark(0x1700), *first, Watermark(0x1850), *second, Watermark(0x1950)])
    )
    assert [it.lsn if isinstance(it, Watermark) else type(it) for it in out] == [
        0x1700,
        Segment,
        0x1850,
        Segment,
        0x1950,
    ]


def test_feeding_before_the_earlier_events_are_encoded_is_an_error() -> None:
    encoder = encoder_of()
    encoder.feed(transaction(relation("id"), insert(1)))
    encoder.encode(NOW)
    assert encoder.pending
    with pytest.raises(AssertionError, match="fed before the earlier ones are encoded"):
        encoder.feed([])


def test_the_position_names_the_next_record() -> None:
    encoder = encoder_of()
    begin, *rows, end = transaction(relation("id"), insert(1), insert(2))
    list(outcomes(encoder, [begin, *rows]))
    assert encoder.position == (0x1800, 2)
    list(outcomes(encoder, [end]))


# --- Facts


def test_encoding_stops_at_a_relation_until_its_facts_are_learnt() -> None:
    encoder = encoder_of()
    encoder.feed(transaction(relation("id"), insert(1)))
    (segment,) = encoder.encode(NOW)
    need = encoder.need
    assert isinstance(need, FactsNeeded)
    assert str(need.relation) == "public.table_16384"
    assert isinstance(segment, Segment)
    assert segment.records == []


def test_encoding_does_not_go_on_before_a_need_is_answered() -> None:
    encoder = encoder_of()
    encoder.feed(transaction(relation("id"), insert(1)))
    encoder.encode(NOW)
    again = encoder.encode(NOW)
    assert all(isinstance(it, Segment) and not it.records for it in again)
    assert isinstance(encoder.need, FactsNeeded)


def test_facts_are_asked_for_once_for_each_relation_message() -> None:
    encoder = encoder_of()
    events = transaction(relation("id"), insert(1), relation("id", oid=ITEMS), insert(2, ITEMS))
    assert facts_asked(encoder, events) == ["public.table_16384", "public.table_16385"]
    assert facts_asked(encoder, events) == []
    assert facts_asked(encoder, transaction(relation("other"), insert(1))) == ["public.table_16384"]
    assert facts_asked(encoder, events) == []


def test_a_relation_repeated_in_a_stream_needs_no_facts() -> None:
    encoder = encoder_of()
    facts_asked(encoder, transaction(relation("id"), insert(1)))
    events = transaction(relation("id", xid=755), insert(1, xid=755), streamed=True)
    assert facts_asked(encoder, events) == []


def test_under_full_facts_are_asked_for_every_time() -> None:
    """The primary key is only in the catalogue, and may change without a new Relation."""
    encoder = encoder_of()
    events = transaction(relation("id", identity="f"), insert(1))
    assert facts_asked(encoder, events) == ["public.table_16384"]
    assert facts_asked(encoder, events) == ["public.table_16384"]


@pytest.mark.parametrize("format", ["json", "avro"])
def test_in_avro_array_dimensions_are_asked_for_every_time(
    format: Literal["json", "avro"],
) -> None:
    """An ALTER COLUMN TYPE that only adds brackets sends no new Relation."""
    grid = build.relation(16384, "public", "grids", "d", [Column("id", INT4, True), Column("grid", 1007)])
    encoder = encoder_of(replace(OPTIONS, format=format))
    events = transaction(grid, build.truncate([16384]))
    assert facts_asked(encoder, events) == ["public.grids"]
    assert facts_asked(encoder, events) == (["public.grids"] if format == "avro" else [])


def test_under_full_a_new_primary_key_is_used() -> None:
    encoder = encoder_of()
    events = transaction(relation("id", identity="f"), insert(1))
    (without,) = records_of(events, encoder)
    (with_one,) = records_of(events, encoder, RelationFacts(primary_key=("id",)))
    assert (without.key, with_one.key) == (None, {"id": 1})


def test_the_same_facts_again_make_no_new_plan() -> None:
    """A table that is often in streams would fill the memory with plans."""
    encoder = encoder_of()
    for _ in range(3):
        records_of(transaction(relation("id", identity="f"), insert(1)), encoder)
    assert encoder.take_counts() == [("public.table_16384", "c", 3)]


def test_a_topic_collision_is_an_error_when_the_facts_are_learnt() -> None:
    encoder = encoder_of(topic="{prefix}.same")
    list(outcomes(encoder, transaction(relation("id"), insert(1))))
    encoder.feed(transaction(relation("id", oid=ITEMS), insert(1, ITEMS)))
    encoder.encode(NOW)
    with pytest.raises(SetupError, match="would share the topic"):
        encoder.provide_facts(RelationFacts())


def test_facts_that_were_not_asked_for_are_an_error() -> None:
    with pytest.raises(AssertionError, match="no facts are needed"):
        encoder_of().provide_facts(RelationFacts())


# --- Announcements and topics


def test_a_table_is_announced_before_its_first_record() -> None:
    encoder = encoder_of()
    encoder.feed(transaction(relation("id"), insert(1)))
    encoder.encode(NOW)
    encoder.provide_facts(RelationFacts())
    (segment,) = encoder.encode(NOW)
    assert isinstance(segment, Segment)
    assert segment.records == []
    need = encoder.need
    assert isinstance(need, Announcement)
    assert (need.topic, need.record[0]) == ("app.public.table_16384", "app.schema")
    encoder.confirm_topic()
    (segment,) = encoder.encode(NOW)
    assert isinstance(segment, Segment)
    assert len(segment.records) == 1


def test_the_message_topic_is_needed_once_before_the_first_message() -> None:
    encoder = encoder_of()
    events = transaction(build.message("audit", b"1"), build.message("audit", b"2"))
    encoder.feed(events)
    (segment,) = encoder.encode(NOW)
    assert isinstance(segment, Segment)
    assert segment.records == []
    assert encoder.need == TopicNeeded("app.message")
    encoder.confirm_topic()
    (segment,) = encoder.encode(NOW)
    assert isinstance(segment, Segment)
    assert len(segment.records) == 2
    encoder.feed(events)
    encoder.encode(NOW)
    assert encoder.need is None


def test_needs_change_neither_seq_nor_order() -> None:
    changes = [relation("id"), insert(1), build.message("audit", b""), relation("other"), insert(2)]
    found = records_of(transaction(*changes), encoder_of())
    assert [(record.value["op"], record.value["source"]["seq"]) for record in found] == [
        ("c", 0),
        ("m", 1),
        ("c", 2),
    ]


# --- Each row is read with the Relation that preceded it


def test_a_relation_may_change_inside_a_transaction() -> None:
    changes = [relation("a"), insert(1), relation("b"), insert(2), relation("a"), insert(3)]
    assert afters(transaction(*changes), encoder_of()) == [{"a": 1}, {"b": 2}, {"a": 3}]


def test_a_relation_holds_until_the_next_one() -> None:
    encoder = encoder_of()
    assert afters(transaction(relation("a"), insert(1)), encoder) == [{"a": 1}]
    assert afters(transaction(insert(2)), encoder) == [{"a": 2}]


def test_a_relation_between_transactions_holds_for_the_following_ones() -> None:
    """Those of a transaction that is being prepared come so."""
    encoder = encoder_of()
    events = [*transaction(relation("a"), insert(1)), xlog_data(relation("b"))]
    assert afters(events, encoder) == [{"a": 1}]
    assert afters(transaction(insert(2)), encoder) == [{"b": 2}]


def test_a_relation_inside_a_transaction_replaces_one_before_it() -> None:
    events = [xlog_data(relation("a")), *transaction(relation("b"), insert(1))]
    assert afters(events, encoder_of()) == [{"b": 1}]


def test_a_streamed_transactions_relations_hold_for_the_session() -> None:
    encoder = encoder_of()
    streamed = transaction(relation("a", xid=755), insert(1, xid=756), streamed=True)
    assert afters(streamed, encoder) == [{"a": 1}]
    assert afters(transaction(insert(2)), encoder) == [{"a": 2}]


def test_a_scoped_transactions_relations_end_with_it() -> None:
    """It was prepared when the table was different."""
    encoder = encoder_of()
    records_of(transaction(relation("new"), insert(1)), encoder)
    assert afters(transaction(relation("old"), insert(2), scoped=True), encoder) == [{"old": 2}]
    assert afters(transaction(insert(3)), encoder) == [{"new": 3}]


def test_a_scoped_transaction_does_not_see_the_sessions_relations() -> None:
    encoder = encoder_of()
    records_of(transaction(relation("id"), insert(1)), encoder)
    encoder.feed(transaction(insert(2), scoped=True))
    with pytest.raises(ProtocolError, match="no Relation message described"):
        encoder.encode(NOW)


def test_a_scoped_transaction_leaves_the_sessions_relations_alone() -> None:
    encoder = encoder_of()
    events = [xlog_data(relation("new")), *transaction(relation("old"), insert(1), scoped=True)]
    assert afters(events, encoder) == [{"old": 1}]
    assert afters(transaction(insert(2)), encoder) == [{"new": 2}]


def test_type_messages_need_no_facts() -> None:
    mood = build.type_(16400, "public", "mood")
    assert afters([xlog_data(mood), *transaction(mood, relation("a"), insert(1))], encoder_of()) == [{"a": 1}]


# --- Excluded tables


def test_excluded_tables_have_no_records_and_need_no_facts() -> None:
    encoder = encoder_of(replace(OPTIONS, selection=Selection(exclude=(r"public\.table_16384",))))
    events = transaction(
        relation("id"), insert(1), build.truncate([OID]), relation("id", oid=ITEMS), insert(2, ITEMS)
    )
    assert facts_asked(encoder, events) == ["public.table_16385"]
    (record,) = records_of(transaction(insert(3), insert(4, ITEMS), insert(5)), encoder)
    assert (record.topic, record.value["source"]["seq"]) == ("app.public.table_16385", 0)


# --- Counts


def test_records_are_counted_by_table_and_op() -> None:
    encoder = encoder_of()
    moved = build.update(OID, ["2"], key=["1"])
    same, gone = build.update(OID, ["2"]), build.delete(OID, key=["2"])
    changes = [insert(1), moved, same, gone, build.truncate([OID]), build.message("audit", b"")]
    records_of(transaction(relation("id"), *changes), encoder)
    assert sorted(encoder.take_counts()) == [
        ("message", "m", 1),
        ("public.table_16384", "c", 2),
        ("public.table_16384", "d", 2),
        ("public.table_16384", "t", 1),
        ("public.table_16384", "u", 1),
    ]
    assert encoder.take_counts() == []


def test_counts_survive_the_replacement_of_their_plan() -> None:
    encoder = encoder_of()
    events = transaction(relation("id", identity="f"), insert(1))
    records_of(events, encoder)
    records_of(events, encoder, RelationFacts(primary_key=("id",)))
    assert encoder.take_counts() == [("public.table_16384", "c", 1)] * 2


def test_counts_survive_replacement_by_a_scoped_transactions_plan() -> None:
    """It brings the same Relation message, but the primary key had changed meanwhile."""
    encoder = encoder_of()
    full = relation("id", identity="f")
    records_of(transaction(full, insert(1)), encoder)
    records_of(transaction(full, insert(2), scoped=True), encoder, RelationFacts(primary_key=("id",)))
    assert encoder.take_counts() == [("public.table_16384", "c", 1)] * 2
    for number in (3, 4):
        records_of(transaction(insert(number)), encoder)
        assert encoder.take_counts() == [("public.table_16384", "c", 1)]


def test_encoding_can_stop_at_the_end_of_a_transaction() -> None:
    encoder = encoder_of()
    segments(encoder, transaction(relation("id"), insert(1)))
    encoder.feed([*transaction(insert(2), commit_lsn=0x1800), *transaction(insert(3), commit_lsn=0x2800)])
    (first,) = encoder.encode(NOW, to_end=True)
    assert isinstance(first, Segment)
    assert first.end_lsn == 0x1808
    assert encoder.pending
    (second,) = encoder.encode(NOW)
    assert isinstance(second, Segment)
    assert second.end_lsn == 0x2808
