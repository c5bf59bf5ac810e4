"""A reproducible stream with every kind of change, table and transaction, in text or in binary.

All draws come from `Random.random`, whose sequence is the same in every version of Python.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final, TypeVar
from uuid import UUID

from pgrelay.encode.plan import RelationFacts
from pgrelay.encode.types import ColumnType
from tests.encode.json_values import numeric_typmod
from tests.encode.samples import SAMPLES
from tests.wire import build
from tests.wire.build import UNCHANGED, Binary, Column, Unchanged

TRANSACTIONS: Final = 60
MOOD: Final = ColumnType(16_500, "mood", typtype="e")
FACTS: Final = RelationFacts(("id",), {MOOD.oid: MOOD}, {"type_1007": 2})
"""What the catalogue would tell of each table."""

_Any = TypeVar("_Any")
# A value's text, and its binary form.
_Sent = tuple[bytes, bytes]
_Row = list[_Sent | Unchanged | None]


class Draw:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def below(self, end: int) -> int:
        return int(self._random.random() * end)

    def chance(self, percent: int) -> bool:
        return self.below(100) < percent

    def one_of(self, choices: Sequence[_Any]) -> _Any:
        return choices[self.below(len(choices))]


@dataclass(frozen=True)
class Table:
    """The key, if any, comes first. `identity` as in pg_class.relreplident."""

    oid: int
    namespace: str
    name: str
    identity: str
    columns: list[Column]

    def relation(self, xid: int | None) -> bytes:
        return build.relation(self.oid, self.namespace, self.name, self.identity, self.columns, xid)


_ID: Final = Column("id", build.INT8, key=True)
_ORDER: Final = [
    _ID,
    Column("quantity", build.INT4),
    Column("name"),
    Column("price", build.NUMERIC, typmod=numeric_typmod(12, 2)),
    Column("paid", build.BOOL),
    Column("at", build.TIMESTAMPTZ),
    Column("day", build.DATE),
    Column("token", build.UUID),
    Column("mood", MOOD.oid),
    Column("note"),
]
# The samples by type OID, without those that Avro's logical types can't hold.
_NOT_IN_AVRO: Final = (b"24:00:00", b"294276-12-31 23:59:59.999999+00")
_OF_EACH: Final[dict[int, list[_Sent]]] = {}
for _oid, _text, _hex in SAMPLES:
    if _text not in _NOT_IN_AVRO:
        _OF_EACH.setdefault(_oid, []).append((_text, bytes.fromhex(_hex)))
_TYPES: Final = [Column(f"type_{oid}", oid) for oid in _OF_EACH]
_WIDE: Final = [Column(f"column_{number}", _ORDER[1 + number % 3].type_oid) for number in range(99)]
_ODD: Final = [Column("a b"), Column('é"\\'), Column("1st", build.INT4)]
TABLES: Final = [
    Table(16384, "public", "orders", "d", _ORDER),
    Table(16385, "public", "types", "d", [_ID, *_TYPES]),
    Table(16386, "public", "tiny", "d", [_ID, Column("quantity", build.INT4)]),
    Table(16387, "public", "wide", "d", [_ID, *_WIDE]),
    Table(16388, "public", "whole", "f", _ORDER),
    Table(16389, "public", "log", "n", [Column("day", build.DATE), Column("note")]),
    Table(16390, 'Große "Tabellen"', "1 + 1", "i", [_ID, *_ODD]),
]


# --- Values

_TEXTS: Final = ("", "tea", 'say "so"', "a\\b", "tab\tand\nline", "\x01\x1f", "Zoë", "日本", "🫖", "x" * 400)
_MOODS: Final = (b"glad", b"sad")
_Y2K: Final = datetime(2000, 1, 1, tzinfo=UTC)


def _whole(number: int, layout: str) -> _Sent:
    return b"%d" % number, struct.pack(layout, number)


def _price(cents: int) -> _Sent:
    """As numeric_send does: digits in base 10,000, without zeros at either end."""
    whole, rest = divmod(cents, 100)
    digits, weight = [whole // 10_000, whole % 10_000, rest * 100], 1
    while digits and digits[0] == 0:
        del digits[0]
        weight -= 1
    while digits and digits[-1] == 0:
        del digits[-1]
    sent = struct.pack(f">hhHh{len(digits)}h", len(digits), weight if digits else 0, 0, 2, *digits)
    return b"%d.%02d" % (whole, rest), sent


def _moment(us: int) -> _Sent:
    text = str(_Y2K + timedelta(microseconds=us)).removesuffix(":00").encode()
    head, point, fraction = text.partition(b".")
    if point:
        text = head + point + fraction.removesuffix(b"+00").rstrip(b"0") + b"+00"
    return text, struct.pack(">q", us)


def _day(days: int) -> _Sent:
    return str(_Y2K.date() + timedelta(days=days)).encode(), struct.pack(">i", days)


def _value(draw: Draw, type_oid: int) -> _Sent:
    match type_oid:
        case build.INT8:
            return _whole(draw.below(2**53) - 2**52, ">q")
        case build.INT4:
            return _whole(draw.below(2**32) - 2**31, ">i")
        case build.NUMERIC:
            return _price(draw.below(10 ** draw.below(11)))
        case build.TIMESTAMPTZ:
            return _moment(draw.below(10**15))
        case build.DATE:
            return _day(draw.below(20_000) - 10_000)
        case build.BOOL:
            return draw.one_of([(b"t", b"\1"), (b"f", b"\0")])
        case build.UUID:
            token = UUID(int=draw.below(2**53) << 70 | draw.below(2**53))
            return str(token).encode(), token.bytes
        case MOOD.oid:
            mood = draw.one_of(_MOODS)
            return mood, mood
        case _:
            text = draw.one_of(_TEXTS).encode()
            return text, text


def _sample(draw: Draw, type_oid: int) -> _Sent:
    return draw.one_of(_OF_EACH[type_oid]) if type_oid in _OF_EACH else _value(draw, type_oid)


def _row(draw: Draw, table: Table) -> _Row:
    of = _sample if table.name == "types" else _value
    return [
        None if not column.key and draw.chance(15) else of(draw, column.type_oid) for column in table.columns
    ]


def _key(row: _Row) -> _Row:
    return [row[0], *[None] * (len(row) - 1)]


# --- Changes


class Stream:
    """Frames as they would come on one connection."""

    def __init__(self, seed: int, binary: bool) -> None:
        self.frames: list[bytes] = []
        self._draw = Draw(seed)
        self._binary = binary
        self._lsn = 0x1_0000_0000
        self._xid = 700
        self._described: set[int] = set()

    def fill(self) -> list[bytes]:
        kinds = [self._plain] * 4 + [self._streamed, self._prepared, self._outside]
        for _ in range(TRANSACTIONS):
            self._draw.one_of(kinds)()
        return self.frames

    def _send(self, message: bytes) -> None:
        self._lsn += 0x38
        self.frames.append(build.xlog_data(message, self._lsn))

    def _next_xid(self) -> int:
        self._xid += 1
        return self._xid

    def _plain(self) -> None:
        commit_lsn = self._lsn + 0x10_0000
        self._send(build.begin(commit_lsn, xid=self._next_xid()))
        if self._draw.chance(20):
            self._send(build.origin(0x77, "site \u00e9"))
        self._changes(self._draw.one_of([1, 1, 2, 20]), None, self._described)
        self._commit_at(commit_lsn)
        self._send(build.commit(commit_lsn, commit_lsn + 0x30))

    def _streamed(self) -> None:
        """With a subtransaction that is rolled back, and another that is not."""
        xid, kept, gone = self._next_xid(), self._next_xid(), self._next_xid()
        described: set[int] = set()
        for number, of in enumerate((xid, gone, kept)):
            self._send(build.stream_start(xid, first=number == 0))
            self._changes(self._draw.below(12), of, described)
            self._send(build.stream_stop())
            if of == gone:
                self._send(build.stream_abort(xid, gone))
                described.clear()
        if self._draw.chance(20):
            self._send(build.stream_abort(xid))
            return
        self._commit_at(self._lsn + 0x1000)
        self._send(build.stream_commit(xid, self._lsn, self._lsn + 0x30))

    def _prepared(self) -> None:
        ids = self._lsn + 0x10_0000, self._lsn + 0x10_0030, self._next_xid(), "two"
        self._send(build.begin_prepare(*ids))
        self._changes(3, None, set())
        self._send(build.prepare(*ids))
        self._plain()
        self._commit_at(self._lsn + 0x20_0000)
        self._send(build.commit_prepared(self._lsn, self._lsn + 0x30, ids[2], "two"))

    def _outside(self) -> None:
        self._send(build.message("audit", b"outside", lsn=self._lsn, transactional=False))
        self.frames.append(build.keepalive(self._lsn))

    def _commit_at(self, lsn: int) -> None:
        self._lsn = lsn

    def _changes(self, count: int, xid: int | None, described: set[int]) -> None:
        for _ in range(count):
            if self._draw.chance(4):
                self._send(build.message("audit", b"\0inside\xff", lsn=self._lsn, xid=xid))
                continue
            table = self._draw.one_of(TABLES)
            if table.oid not in described:
                described.add(table.oid)
                self._send(table.relation(xid))
            self._send(self._change(table, xid))

    def _change(self, table: Table, xid: int | None) -> bytes:
        draw, oid = self._draw, table.oid
        row = _row(draw, table)
        if table.identity == "n" or draw.chance(40):
            return build.insert(oid, self._sent(row), xid)
        old = _row(draw, table)
        whole = table.identity == "f"
        if draw.chance(3):
            return build.truncate([oid], cascade=draw.chance(50), restart_identity=draw.chance(50), xid=xid)
        if draw.chance(25):
            before = {"old": self._sent(old)} if whole else {"key": self._sent(_key(old))}
            return build.delete(oid, xid=xid, **before)
        if draw.chance(50) and row[-1] is not None:
            row[-1] = UNCHANGED
        if whole:
            old[0] = row[0] if draw.chance(70) else old[0]
            return build.update(oid, self._sent(row), old=self._sent(old), xid=xid)
        moved = self._sent(_key(old)) if draw.chance(30) else None
        return build.update(oid, self._sent(row), key=moved, xid=xid)

    def _sent(self, row: _Row) -> build.Row:
        return [self._form(value) if isinstance(value, tuple) else value for value in row]

    def _form(self, value: _Sent) -> bytes | Binary:
        return Binary(value[1]) if self._binary else value[0]
