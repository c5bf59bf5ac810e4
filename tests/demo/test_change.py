import json
from typing import Any

from pgrelay.demo.change import TOMBSTONE, Change, parse_change

SOURCE = {"commit_lsn": 200, "seq": 3, "ts_us": 1_700_000_000_000_000, "txId": 754}


def parsed(record: dict[str, Any], key: dict[str, Any] | None, topic: str = "shop.public.orders") -> Change:
    value = json.dumps({"before": None, "after": None, "source": SOURCE, **record}).encode()
    return parse_change(topic, None if key is None else json.dumps(key).encode(), value, None)


def test_an_update_is_parsed() -> None:
    change = parsed({"op": "u", "before": {"id": 7}, "after": {"id": 7, "status": "paid"}}, {"id": 7})
    assert change == Change(
        "orders",
        "u",
        {"id": 7},
        {"id": 7},
        {"id": 7, "status": "paid"},
        (200, 3),
        1_700_000_000_000_000,
        754,
    )


def test_a_key_is_its_values_in_column_order() -> None:
    assert parsed({"op": "c", "after": {}}, {"order_id": 7, "line": 2}).row_key == (7, 2)


def test_a_truncate_has_no_key() -> None:
    assert parsed({"op": "t"}, None).row_key == ()


def test_a_tombstone_belongs_to_its_delete() -> None:
    delete = parsed({"op": "d", "before": {"id": 7}}, {"id": 7})
    tombstone = parse_change("shop.public.orders", b'{"id": 7}', None, delete)
    assert tombstone.op == TOMBSTONE
    assert (tombstone.table, tombstone.key, tombstone.position) == ("orders", {"id": 7}, (200, 3))


def test_a_logical_messages_content_is_read_as_text() -> None:
    message = {"prefix": "till", "content": "Y2xvc2Vk"}
    change = parsed({"op": "m", "message": message}, {"prefix": "till"}, "shop.message")
    assert (change.table, change.after) == ("message", {"content": "closed"})
