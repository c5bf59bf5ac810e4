from collections.abc import Iterable

from pgrelay.demo.change import TOMBSTONE, Change, Row
from pgrelay.demo.screen import Line
from pgrelay.demo.shop import MAX_SHOWN
from pgrelay.demo.view import OP_STYLES, Feed, change_line
from tests.demo.changes import change


def text(line: Line) -> str:
    """The line without its time and colours."""
    return "".join(piece for _, piece in line[1:]).rstrip()


def texts(lines: Iterable[Line]) -> list[str]:
    return [text(line) for line in lines]


def shown(change: Change, previous: Row | None = None) -> str:
    return text(change_line(change, previous))


def test_a_created_row_is_shown_without_its_key() -> None:
    row = {"id": 7, "status": "placed", "total": "11.90", "shipping": None}
    assert (
        shown(change("c", after=row))
        == "c orders          7        status=placed  total=11.90  shipping=null"
    )


def test_a_composite_key_is_shown_with_slashes() -> None:
    item = change(
        "c", "order_items", {"order_id": 1001, "line": 2}, after={"order_id": 1001, "line": 2, "n": 3}
    )
    assert shown(item) == "c order_items     1001/2   n=3"


def test_an_update_shows_what_changed_since_the_previous_record() -> None:
    after = {"id": 7, "price": "11.90", "stock": 49}
    update = change("u", "products", after=after)
    assert shown(update, {**after, "stock": 50}) == "u products        7        stock 50 → 49"


def test_an_update_with_its_old_row_shows_what_changed() -> None:
    update = change("u", before={"id": 7, "status": "placed"}, after={"id": 7, "status": "paid"})
    assert shown(update, None) == "u orders          7        status placed → paid"


def test_an_update_of_an_unknown_row_is_shown_whole() -> None:
    assert shown(change("u", after={"id": 7, "stock": 49})) == "u orders          7        stock=49"


def test_an_update_that_changes_nothing_says_so() -> None:
    row = {"id": 7, "stock": 49}
    assert shown(change("u", after=row), row) == "u orders          7        no value changed"


def test_a_delete_shows_only_the_columns_in_its_record() -> None:
    assert shown(change("d", before={"id": 7, "status": "paid"})) == "d orders          7        status=paid"
    assert shown(change("d", before={"id": 7}), {"id": 7, "status": "paid"}) == "d orders          7"


def test_a_truncate_and_a_tombstone_are_shown() -> None:
    assert shown(change("t", key={})) == "t orders                   every row of the table"
    assert shown(change(TOMBSTONE)) == "∅ orders          7        tombstone"


def test_values_are_shown_on_one_line() -> None:
    row = {"id": 7, "tags": ["a", "b"], "attributes": {"ö": 1}, "note": "two\nlines"}
    assert shown(change("c", after=row)).endswith(r'tags=["a","b"]  attributes={"ö":1}  note="two\nlines"')


def test_each_op_has_its_colour_and_a_tombstone_is_dim() -> None:
    for op, style in OP_STYLES.items():
        assert change_line(change(op, after={} if op in "curm" else None), None)[1][0] == style
    assert {style for style, _ in change_line(change(TOMBSTONE), None)} == {"dim"}


def inserts(count: int, commit: int, table: str = "supplier_prices") -> list[Change]:
    return [change("c", table, {"id": n}, after={"id": n}, position=(commit, n)) for n in range(count)]


def test_only_the_beginning_of_a_large_transaction_is_shown() -> None:
    feed = Feed()
    lines = [line for each in inserts(5_000, 100) for line in feed.lines(each, None)]
    assert len(lines) == MAX_SHOWN == feed.shown
    assert texts(feed.flush()) == ["… supplier_prices 4,990 more of transaction 754"]
    assert texts(feed.flush()) == []


def test_the_hidden_rest_is_counted_before_the_next_transaction() -> None:
    feed = Feed()
    for each in inserts(MAX_SHOWN + 1, 100):
        list(feed.lines(each, None))
    [more, first] = texts(feed.lines(inserts(1, 200, "orders")[0], None))
    assert more == "… supplier_prices 1 more of transaction 754"
    assert first.startswith("c orders")


def test_tombstones_do_not_count_as_changes() -> None:
    feed = Feed()
    assert len(list(feed.lines(change("d", before={}), None))) == 1
    assert len(list(feed.lines(change(TOMBSTONE), None))) == 1
    assert feed.shown == 1
