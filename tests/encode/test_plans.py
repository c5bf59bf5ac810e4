"""Which plans the session keeps: a relation's last two, and none of a table that was dropped."""

import gc
from typing import Any, Final

from pgrelay.assembly.events import Event
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.plan import Plan
from tests.encode.encoding import encoder_of, facts_asked, records_of, transaction
from tests.wire import build
from tests.wire.build import INT4, Column, xlog_data

OID: Final = 16384
OTHER: Final = 16385


def table(name: str, column: str = "id", oid: int = OID) -> bytes:
    return build.relation(oid, "public", name, "d", [Column(column, INT4, key=True)])


def insert(number: int, oid: int = OID) -> bytes:
    return build.insert(oid, [str(number)])


def afters(events: list[Event], encoder: Encoder) -> list[dict[str, Any]]:
    return [record.value["after"] for record in records_of(events, encoder)]


def plans_alive() -> int:
    gc.collect()
    return sum(isinstance(it, Plan) for it in gc.get_objects())


# --- What is freed


def test_replaced_plans_are_freed() -> None:
    encoder = encoder_of()
    before = plans_alive()
    for number in range(20):
        records_of(transaction(table("orders", f"column_{number}"), insert(1)), encoder)
        assert encoder.take_counts() == [("public.orders", "c", 1)]
    # The last one, and the one before it.
    assert plans_alive() - before == 2


def test_replaced_plans_are_freed_if_their_relations_came_with_a_prepare() -> None:
    encoder = encoder_of()
    before = plans_alive()
    for number in range(20):
        prepared = xlog_data(table("orders", f"column_{number}"))
        records_of([prepared, *transaction(insert(1))], encoder)
        assert encoder.take_counts() == [("public.orders", "c", 1)]
    assert plans_alive() - before == 2


def test_a_table_that_is_dropped_and_created_again_leaves_no_plan() -> None:
    encoder = encoder_of()
    before = plans_alive()
    for number in range(20):
        oid = OID + number
        records_of(transaction(table("staging", oid=oid), insert(1, oid)), encoder)
        assert encoder.take_counts() == [("public.staging", "c", 1)]
    assert plans_alive() - before == 1


# --- What is read again


def test_a_row_of_a_table_whose_name_another_took_is_read_by_its_relation() -> None:
    """The server describes a renamed table again, but before version 16 not for a renamed schema."""
    encoder = encoder_of()
    assert afters(transaction(table("orders", "old"), insert(1)), encoder) == [{"old": 1}]
    assert afters(transaction(table("orders", "new", OTHER), insert(2, OTHER)), encoder) == [{"new": 2}]
    assert afters(transaction(insert(3), insert(4, OTHER)), encoder) == [{"old": 3}, {"new": 4}]


def test_a_truncate_of_two_tables_that_the_server_gives_one_name_is_a_record_of_each() -> None:
    """Before version 16 a table whose schema was renamed keeps its old name, which another may have got."""
    encoder = encoder_of()
    truncate = build.truncate([OID, OTHER])
    found = records_of(transaction(table("orders", "old"), table("orders", "new", OTHER), truncate), encoder)
    assert [record.value["op"] for record in found] == ["t", "t"]
    assert encoder.take_counts() == [("public.orders", "t", 1), ("public.orders", "t", 1)]
    assert [record.value["op"] for record in records_of(transaction(truncate), encoder)] == ["t", "t"]


def test_a_relation_that_came_with_a_prepare_outlives_the_loss_of_its_name() -> None:
    encoder = encoder_of()
    afters(transaction(table("orders", "old"), insert(1)), encoder)
    afters([xlog_data(table("sold", "later"))], encoder)
    afters(transaction(table("orders", oid=OTHER), insert(2, OTHER)), encoder)
    (record,) = records_of(transaction(insert(3)), encoder)
    assert (record.value["source"]["table"], record.value["after"]) == ("sold", {"later": 3})


def test_a_table_may_take_another_name_before_a_third_takes_its_own() -> None:
    encoder = encoder_of()
    facts_asked(encoder, transaction(table("a"), insert(1)))
    renamed = transaction(table("b"), insert(2), table("a", oid=OTHER), insert(3, OTHER))
    assert facts_asked(encoder, renamed) == ["public.b", "public.a"]
    assert facts_asked(encoder, transaction(insert(4), insert(5, OTHER))) == []
