"""Partitions published as a FULL root without being FULL: outside of the key their old rows are nulls."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.events import Event
from pgrelay.assembly.prepared import PreparedStore
from pgrelay.assembly.spool import Spool
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.needs import Announcement, FactsNeeded
from pgrelay.encode.options import DeadLetterOptions, Limits
from pgrelay.encode.plan import RelationFacts
from pgrelay.errors import RecordError
from tests.assembly.transactions import UNLIMITED, events
from tests.encode.encoding import NOW, OPTIONS, Written, encoder_of, records_of, transaction
from tests.wire import build
from tests.wire.build import INT4, Column

ROOT_OID: Final = 16384
LOW_OID: Final = 16390
HIGH_OID: Final = 16391
COLUMNS: Final = [Column("id", INT4, key=True), Column("item"), Column("big")]
ALL_KEY: Final = [Column(name, oid, key=True) for name, oid, _, _ in COLUMNS]
ROOT: Final = build.relation(ROOT_OID, "public", "orders", "f", ALL_KEY)
LOW: Final = build.relation(LOW_OID, "public", "low", "d", COLUMNS)
LOW_FULL: Final = build.relation(LOW_OID, "public", "low", "f", ALL_KEY)
HIGH: Final = build.relation(HIGH_OID, "public", "high", "f", ALL_KEY)
# The catalogue's present state: every partition is FULL.
FACTS: Final = RelationFacts(primary_key=("id",))

INSERTED: Final = build.insert(ROOT_OID, ["1", "tea", "B"])
DELETED: Final = build.delete(ROOT_OID, old=["1", None, None])
MOVED: Final = build.update(ROOT_OID, ["2", "tea", "B"], old=["1", None, None])
DELETED_WHOLE: Final = build.delete(ROOT_OID, old=["1", None, "B"])


def ops(encoder: Encoder, events: list[Event]) -> list[str]:
    return [record.value["op"] for record in records_of(events, encoder, FACTS) if record.value]


def relayed(*messages: bytes, encoder: Encoder | None = None) -> list[str]:
    return ops(encoder or encoder_of(), transaction(*messages))


@pytest.mark.parametrize("change", [DELETED, MOVED], ids=["delete", "key change"])
def test_an_old_row_from_before_a_partition_was_full_is_refused(change: bytes) -> None:
    """Even if it is FULL by now, as the error told the operator to make it."""
    with pytest.raises(
        RecordError, match=r"public\.orders: an old row has only the columns that .* public\.low"
    ) as caught:
        relayed(ROOT, LOW, INSERTED, change)
    assert (caught.value.table, caught.value.lsn, caught.value.commit_lsn) == (
        "public.orders",
        0x1030,
        0x1800,
    )


def test_a_root_without_a_key_that_became_full_makes_no_value_null() -> None:
    """The server does not describe it again, and sends what identifies the row in the partition."""
    keyless = [Column(name, oid) for name, oid, _, _ in COLUMNS]
    root = build.relation(ROOT_OID, "public", "orders", "d", keyless)
    with pytest.raises(RecordError, match=r"only the columns that identify it in partition public\.low"):
        relayed(root, LOW, INSERTED, DELETED)
    assert relayed(root, LOW, INSERTED, DELETED_WHOLE) == ["c", "d"]
    assert relayed(root, LOW_FULL, INSERTED, DELETED) == ["c", "d"]


def test_the_first_change_of_a_partition_that_was_not_full_is_refused() -> None:
    """As after a restart, when the refused change comes first."""
    with pytest.raises(RecordError, match=r"partition public\.low"):
        relayed(ROOT, LOW, DELETED)


def test_old_rows_with_other_values_than_the_key_pass() -> None:
    unkeyed = build.update(ROOT_OID, ["1", "tea", None])
    assert relayed(ROOT, LOW, INSERTED, unkeyed, DELETED_WHOLE) == ["c", "u", "d"]


def test_old_rows_of_nulls_pass_if_no_partition_was_seen_not_full() -> None:
    assert relayed(ROOT, INSERTED, DELETED) == ["c", "d"]
    assert relayed(ROOT, HIGH, INSERTED, DELETED) == ["c", "d"]


def test_a_partition_that_has_become_full_is_trusted_again() -> None:
    assert relayed(ROOT, LOW, INSERTED, ROOT, LOW_FULL, DELETED) == ["c", "d"]


def test_one_full_partition_does_not_clear_another() -> None:
    with pytest.raises(RecordError, match=r"partition public\.low"):
        relayed(ROOT, LOW, INSERTED, ROOT, HIGH, INSERTED, DELETED)


def test_a_partition_is_noted_of_a_root_whose_name_another_table_took() -> None:
    """Before PostgreSQL 16 the server does not describe tables of a renamed schema again."""
    other = build.relation(16400, "public", "orders", "d", COLUMNS)
    encoder = encoder_of()
    taken = transaction(ROOT, INSERTED, other, build.insert(16400, ["1", "tea", "B"]))
    assert ops(encoder, taken) == ["c", "c"]
    with pytest.raises(RecordError, match=r"partition public\.low"):
        relayed(LOW, INSERTED, DELETED, encoder=encoder)


def test_partitions_cost_no_questions_and_no_plans() -> None:
    """There may be a new one every hour."""
    encoder = encoder_of()
    encoder.feed(transaction(ROOT, LOW, INSERTED, ROOT, HIGH, INSERTED))
    encoder.encode(NOW)
    assert isinstance(encoder.need, FactsNeeded)
    assert (str(encoder.need.relation), encoder.need.ahead) == ("public.orders", ())
    encoder.provide_facts(FACTS)
    encoder.encode(NOW)
    assert isinstance(encoder.need, Announcement)
    encoder.confirm_topic()
    encoder.encode(NOW)
    assert isinstance(encoder.need, FactsNeeded), "a FULL root's key may change"
    encoder.provide_facts(FACTS)
    encoder.encode(NOW)
    assert encoder.need is None


def test_a_partition_that_is_relayed_by_itself_later_is_read_then() -> None:
    """As after publish_via_partition_root was switched off."""
    encoder = encoder_of()
    own = build.insert(LOW_OID, ["1", "tea", "B"])
    first, second = records_of(transaction(ROOT, LOW, INSERTED, own), encoder, FACTS)
    assert [each.value["source"]["table"] for each in (first, second)] == ["orders", "low"]


def test_a_new_relation_of_the_root_keeps_its_partitions() -> None:
    more = [*ALL_KEY, Column("note", key=True)]
    changed = build.relation(ROOT_OID, "public", "orders", "f", more)
    deleted = build.delete(ROOT_OID, old=["1", None, None, None])
    with pytest.raises(RecordError, match=r"partition public\.low"):
        relayed(ROOT, LOW, INSERTED, changed, HIGH, deleted)


def test_a_partition_whose_key_has_every_column_passes() -> None:
    relation = build.relation(LOW_OID, "public", "low", "i", ALL_KEY)
    assert relayed(ROOT, relation, DELETED) == ["d"]


def test_tables_of_one_prepared_transaction_are_not_taken_for_partitions(tmp_path: Path) -> None:
    """Its rows come long after their tables were described, which is then repeated."""
    items = build.relation(LOW_OID, "public", "items", "d", COLUMNS)
    spool, encoder = Spool(tmp_path), encoder_of()
    assembler = Assembler(spool, PreparedStore(spool), UNLIMITED, two_phase=True)

    def ops_of(*messages: bytes) -> list[str]:
        frames = [build.xlog_data(message, 0x1000 + 16 * n) for n, message in enumerate(messages)]
        return ops(encoder, events(assembler, frames))

    item = build.insert(LOW_OID, ["1", "tea", "B"])
    described = (build.begin(0x800), ROOT, INSERTED, items, item, build.commit(0x800, 0x808))
    assert ops_of(*described) == ["c", "c"]
    assert ops_of(build.begin_prepare(0x900, 0x908, 731, "g"), INSERTED, item, DELETED) == []
    assert ops_of(build.prepare(0x900, 0x908, 731, "g")) == []
    assert ops_of(build.commit_prepared(0xA00, 0xA08, 731, "g")) == ["c", "c", "d"]
    assert ops_of(build.begin(0xB00), DELETED, build.commit(0xB00, 0xB08)) == ["d"]


def test_tables_truncated_together_are_not_taken_for_partitions() -> None:
    encoder = encoder_of()
    truncate = build.truncate([ROOT_OID, LOW_OID])
    relayed(ROOT, LOW, truncate, encoder=encoder)
    assert relayed(DELETED, encoder=encoder) == ["d"]


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_refusal_does_not_depend_on_how_the_events_are_cut(cut: int) -> None:
    encoder = encoder_of()
    events = transaction(ROOT, LOW, INSERTED, DELETED)
    with pytest.raises(RecordError, match=r"partition public\.low"):
        ops(encoder, events[:cut]), ops(encoder, events[cut:])


def test_an_old_row_in_a_streamed_transaction_is_refused_too() -> None:
    xid = 754
    relations = [
        build.relation(ROOT_OID, "public", "orders", "f", ALL_KEY, xid),
        build.relation(LOW_OID, "public", "low", "d", COLUMNS, xid),
    ]
    deleted = build.delete(ROOT_OID, old=["1", None, None], xid=xid)
    with pytest.raises(RecordError, match=r"partition public\.low"):
        ops(encoder_of(), transaction(*relations, deleted, streamed=True))


def test_as_a_dead_letter_the_old_row_keeps_its_key() -> None:
    letters = DeadLetterOptions(Limits(max_bytes=1_000_000, set_by_producer=True), {})
    encoder = encoder_of(replace(OPTIONS, dead_letters=letters))
    letter: Written
    letter, deleted, _ = records_of(transaction(ROOT, LOW, DELETED, DELETED_WHOLE), encoder, FACTS)
    assert (letter.topic, letter.key, letter.headers["op"]) == ("app.dead_letter", {"id": 1}, b"d")
    assert deleted.value["source"]["seq"] == 1
