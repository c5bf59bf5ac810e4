"""Records as lines of text: time, operation, table, key, and the changed values."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from pgrelay.demo.change import TOMBSTONE, TRUNCATE, Change, Row
from pgrelay.demo.screen import Line, Piece
from pgrelay.demo.shop import MAX_SHOWN

OP_STYLES: Final = {
    "c": "green",
    "u": "yellow",
    "d": "red",
    "r": "cyan",
    TRUNCATE: "magenta",
    "m": "blue",
    TOMBSTONE: "dim",
}

_OP_NAMES: Final = {
    "c": "created",
    "u": "updated",
    "d": "deleted",
    TOMBSTONE: "tombstone",
    TRUNCATE: "truncated",
    "m": "message",
}

_TABLE_WIDTH: Final = len("supplier_prices")
_KEY_WIDTH: Final = len("HB-00001")


def legend() -> Line:
    """The meaning of the letters."""
    return [(OP_STYLES[op], f"{op} {name}   ") for op, name in _OP_NAMES.items()]


def change_line(change: Change, previous: Row | None) -> Line:
    """One line for one record. `previous` is the row as earlier records left it."""
    style = OP_STYLES[change.op]
    faded = "dim" if change.op == TOMBSTONE else ""
    return [
        ("dim", f"{_clock(change.commit_us)} "),
        (style, f"{change.op} {change.table:<{_TABLE_WIDTH}} "),
        (faded or "bold", f"{'/'.join(map(_value, change.key.values())):<{_KEY_WIDTH}} "),
        *_particulars(change, previous),
    ]


def _particulars(change: Change, previous: Row | None) -> list[Piece]:
    if change.op == TOMBSTONE:
        return [("dim", "tombstone")]
    if change.op == TRUNCATE:
        return [("", "every row of the table")]
    if change.after is None:
        return _columns(change, change.before or {})
    old = change.before or previous
    if change.op == "u" and old is not None:
        return _differences(old, change.after)
    return _columns(change, change.after)


def _columns(change: Change, row: Row) -> list[Piece]:
    shown = [(name, value) for name, value in row.items() if name not in change.key]
    return [piece for name, value in shown for piece in (("dim", f"{name}="), ("", f"{_value(value)}  "))]


def _differences(old: Row, new: Row) -> list[Piece]:
    pieces: list[Piece] = []
    for name, value in new.items():
        if name not in old or old[name] != value:
            pieces += [("dim", f"{name} {_value(old.get(name))} → "), ("", f"{_value(value)}  ")]
    return pieces or [("dim", "no value changed")]


def _value(value: Any) -> str:
    if isinstance(value, str) and value.isprintable():
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _clock(unix_us: int) -> str:
    return datetime.fromtimestamp(unix_us / 1e6).strftime("%H:%M:%S.%f")[:-3]


class Feed:
    """Decides what is shown of a transaction: its first changes, and the count of the rest."""

    def __init__(self) -> None:
        self.shown = 0
        self._of: Counter[int] = Counter()
        self._held: Counter[tuple[int | None, str]] = Counter()

    def lines(self, change: Change, previous: Row | None) -> Iterator[Line]:
        """The lines to show for this change; there may be none."""
        commit = change.position[0]
        if change.op != TOMBSTONE:
            self._of[commit] += 1
        if self._of[commit] > MAX_SHOWN:
            self._held[change.xid, change.table] += 1
            return
        yield from self.flush()
        self.shown += change.op != TOMBSTONE
        yield change_line(change, previous)

    def flush(self) -> Iterator[Line]:
        """For each transaction and table, a line that counts the changes not shown since the last call."""
        for (xid, table), count in self._held.items():
            rest = f"… {table:<{_TABLE_WIDTH}} {count:,} more of transaction {xid}"
            yield [("", " " * len("00:00:00.000 ")), ("dim", rest)]
        self._held.clear()
