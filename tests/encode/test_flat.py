"""The flat envelope: the row, then `__op`, `__deleted`, `__commit_lsn`, `__seq` and `__ts_ms`."""

from dataclasses import replace
from typing import Any, Final

import pytest

from pgrelay.encode.records import EVERY_PARTITION
from pgrelay.encode.selection import Selection
from pgrelay.errors import SetupError
from tests.encode.encoding import OPTIONS, Written, encoder_of, records, segments, transaction
from tests.wire import build
from tests.wire.build import INT4, NOON, UNCHANGED, Column

FLAT: Final = replace(OPTIONS, envelope="flat")
OID: Final = 16384
PEOPLE: Final = build.relation(
    OID, "public", "people", "d", [Column("id", INT4, key=True), Column("name"), Column("big")]
)
PEOPLE_FULL: Final = build.relation(
    OID, "public", "people", "f", [Column("id", INT4, key=True), Column("name"), Column("big")]
)


def flat(*messages: bytes) -> list[Written]:
    return records(*messages, options=FLAT)


def flat_members(op: str, seq: int = 0, *, deleted: bool = False) -> dict[str, Any]:
    """The members after the columns, in a record of the transaction that commits at 0x1800."""
    return {
        "__op": op,
        "__deleted": deleted,
        "__commit_lsn": 0x1800,
        "__seq": seq,
        "__ts_ms": NOON // 1000,
    }


def test_a_column_named_like_a_metadata_member_is_refused() -> None:
    taken = build.relation(OID, "public", "people", "d", [Column("id", INT4, key=True), Column("__op")])
    insert = build.insert(OID, ["1", "mine"])
    with pytest.raises(
        SetupError, match=r"public\.people\.__op: the flat envelope has a member of that name"
    ):
        records(taken, insert, options=FLAT)
    without = replace(FLAT, selection=Selection(drop=(r".*\.__op",)))
    assert records(taken, insert, options=without)[0].value == {"id": 1, **flat_members("c")}
    assert records(taken, insert)[0].value["after"] == {"id": 1, "__op": "mine"}


def test_a_value_is_the_row_followed_by_the_metadata() -> None:
    events = transaction(PEOPLE, build.insert(OID, ["1", "Ada", None]))
    (segment,) = [segment for segment in segments(encoder_of(FLAT), events) if segment.records]
    ((topic, key, value, _, _),) = segment.records
    assert (topic, key) == ("app.public.people", b'{"id":1}')
    assert value == (
        b'{"id":1,"name":"Ada","big":null,'
        b'"__op":"c","__deleted":false,"__commit_lsn":6144,"__seq":0,"__ts_ms":%d}' % (NOON // 1000)
    )


@pytest.mark.parametrize("relation", [PEOPLE, PEOPLE_FULL])
def test_an_update_is_only_the_new_row(relation: bytes) -> None:
    old = None if relation is PEOPLE else ["1", "Ada", "x"]
    (update,) = flat(relation, build.update(OID, ["1", "Ada L", "x"], old=old))
    assert update.value == {"id": 1, "name": "Ada L", "big": "x"} | flat_members("u")


def test_a_delete_is_the_old_key_marked_as_deleted() -> None:
    deleted, tombstone = flat(PEOPLE, build.delete(OID, key=["1", None, None]))
    assert deleted.value == {"id": 1} | flat_members("d", deleted=True)
    assert (tombstone.key, tombstone.value) == ({"id": 1}, None)


def test_a_delete_under_full_is_the_whole_old_row() -> None:
    (deleted,) = flat(PEOPLE_FULL, build.delete(OID, old=["1", "Ada", None]))  # no primary key: no tombstone
    assert deleted.value == {"id": 1, "name": "Ada", "big": None} | flat_members("d", deleted=True)


def test_a_change_of_the_key_is_a_delete_and_a_create() -> None:
    deleted, tombstone, created = flat(
        PEOPLE, build.update(OID, ["2", "Ada", UNCHANGED], key=["1", None, None])
    )
    assert deleted.value == {"id": 1} | flat_members("d", deleted=True)
    assert tombstone.value is None
    assert created.value == {"id": 2, "name": "Ada", "__unchanged": ["big"]} | flat_members("c", seq=1)
    assert deleted.headers == tombstone.headers == {"__debezium.newkey": b'{"id":2}'}
    assert created.headers == {"__debezium.oldkey": b'{"id":1}'}


def test_unchanged_columns_are_absent_and_listed() -> None:
    (update,) = flat(PEOPLE, build.update(OID, ["1", "Ada", UNCHANGED]))
    assert update.value == {"id": 1, "name": "Ada", "__unchanged": ["big"]} | flat_members("u")


def test_only_a_record_with_unchanged_columns_lists_any() -> None:
    _, whole = flat(PEOPLE, build.update(OID, ["1", "Ada", UNCHANGED]), build.update(OID, ["1", "Ada", "x"]))
    assert whole.value == {"id": 1, "name": "Ada", "big": "x"} | flat_members("u", seq=1)


def test_an_unchanged_column_is_filled_in_from_the_old_row() -> None:
    (update,) = flat(PEOPLE_FULL, build.update(OID, ["1", "Ada", UNCHANGED], old=["1", "A", "x"]))
    assert update.value == {"id": 1, "name": "Ada", "big": "x"} | flat_members("u")


def test_a_row_without_columns_is_only_the_metadata() -> None:
    (created,) = flat(build.relation(OID, "public", "marks", "d", []), build.insert(OID, []))
    assert (created.key, created.partition) == (None, 0)
    assert created.value == flat_members("c")


def test_a_truncate_goes_to_every_partition() -> None:
    (truncated,) = flat(PEOPLE, build.truncate([OID], cascade=True))
    assert (truncated.key, truncated.partition) == (None, EVERY_PARTITION)
    content = {"cascade": True, "restart_identity": False}
    assert truncated.value == {"__truncate": content} | flat_members("t")


def test_a_logical_message_is_in_its_own_member() -> None:
    (message,) = flat(build.message("note", b"hi", lsn=0x1000))
    assert (message.topic, message.key) == ("app.message", {"prefix": "note"})
    assert message.value == {"__message": {"prefix": "note", "content": "aGk="}} | flat_members("m")
