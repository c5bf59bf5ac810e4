"""Random sessions, relayed, compared with test_decoding's output and with the tables at the end.

PGRELAY_TEST_SEEDS=7 runs another seed than the usual ones, PGRELAY_TEST_SEEDS=1-50 runs many.
"""

import os
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import Any, NamedTuple

import pytest

from tests.integration import oracle, random_sessions
from tests.integration.changes import as_text, fold, fold_keyless, in_order, place
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.history import without_repeats
from tests.integration.oracle import Oracle
from tests.integration.random_sessions import TABLES
from tests.integration.servers import on_full_versions
from tests.integration.topics import Record

_SESSIONS, _TRANSACTIONS = 4, 30


def _seeds() -> list[int]:
    first, _, last = os.environ.get("PGRELAY_TEST_SEEDS", "1-2").partition("-")
    return list(range(int(first), int(last or first) + 1))


class Told(NamedTuple):
    """A change as text, comparable between sources. Nulls of an old row are left out."""

    op: str
    table: str
    key: str
    before: str
    after: str


@on_full_versions
@pytest.mark.parametrize("seed", _seeds(), ids="seed-{}".format)
def test_the_records_equal_what_test_decoding_shows(
    database: Database, new_relay: NewRelay, prefix: str, version: str, seed: int
) -> None:
    database.execute(random_sessions.SCHEMA)
    database.execute(f"ALTER DATABASE {database.name} SET logical_decoding_work_mem = '64kB'")
    judge = Oracle(database, f"{prefix}_oracle")
    judge.create()
    relay = new_relay(**_configuration(seed, int(version))).start().wait_streaming()
    killed = seed % 4 in (1, 2)

    def halfway() -> None:
        if killed:
            relay.kill()
            relay.start()

    random_sessions.run_sessions(
        database, seed, sessions=_SESSIONS, transactions=_TRANSACTIONS, halfway=halfway
    )
    relay.caught_up()
    records = {table: relay.records(table) for table in TABLES}
    messages = relay.read(f"{relay.prefix}.message")
    everything = [*messages, *(record for found in records.values() for record in found)]
    _assert_repeated_only_when(killed, everything)
    _assert_same(_told_by(judge.transactions()), _transactions(everything))
    for table, key in TABLES.items():
        _assert_folds_to_table(database, table, records[table], keyed=bool(key))


def _configuration(seed: int, version: int) -> dict[str, dict[str, Any]]:
    """A way to send and keep the changes, different for each seed; it must not matter which."""
    return {
        "source": {
            "streaming": ("off", "parallel" if version >= 16 else "on", "on")[seed % 3],
            "two_phase": version >= 15 and seed % 4 in (2, 3),
            "binary": seed % 5 in (1, 3),
        },
        "sink": {"partitions": 1 + seed % 2 * 2},
        "transactions": {"memory_mb": 1},
    }


def _assert_repeated_only_when(killed: bool, records: Iterable[Record]) -> None:
    """Assert that changes repeat only after a kill and unchanged, and that each partition is in order."""
    rows = [record for record in records if record.value is not None]
    without_repeats(rows)
    places = [(record.topic, record.partition, place(record)) for record in rows]
    assert killed or len(set(places)) == len(places)


def _transactions(records: Iterable[Record]) -> list[tuple[int, list[Told]]]:
    """The records' transactions in commit order: transaction id and changes."""
    transactions = []
    for _, group in groupby(in_order(records), lambda record: place(record)[0]):
        found = list(group)
        assert [place(record)[1] for record in found] == list(range(len(found)))
        (xid,) = {record.json["source"]["txId"] for record in found}
        transactions.append((xid, [_told(record) for record in found]))
    return transactions


def _told(record: Record) -> Told:
    value, op = record.json, record.json["op"]
    if op == "m":
        return Told(op, b64decode(value["message"]["content"]).decode(), "", "", "")
    unchanged = dict.fromkeys(value.get("unchanged", ()), ...)
    return Told(
        op,
        value["source"]["table"],
        _text(record.json_key),
        _text(value["before"], nulls=False),
        _text(value["after"] and value["after"] | unchanged),
    )


def _told_by(transactions: list[oracle.Transaction]) -> list[tuple[int, list[Told]]]:
    return [
        (transaction.xid, [told for change in transaction.changes for told in _contract(change)])
        for transaction in transactions
    ]


def _contract(change: oracle.Change) -> list[Told]:
    """The records that docs/records.md promises for a change."""
    if change.kind in ("MESSAGE", "TRUNCATE"):
        return [Told(change.kind[0].lower(), change.table, "", "", "")]
    columns = TABLES[change.table]
    old, new = change.old, change.new
    if new is not None and old is not None:
        new = {name: old.get(name, ...) if value is ... else value for name, value in new.items()}
    old_key, new_key = (row and {name: row[name] for name in columns} for row in (old, new))
    before, after = _text(old, nulls=False), _text(new)
    if old is None:
        return [Told("c" if change.kind == "INSERT" else "u", change.table, _text(new_key), "", after)]
    if new is None:
        return [Told("d", change.table, _text(old_key), before, "")]
    if old_key == new_key:
        return [Told("u", change.table, _text(new_key), before, after)]
    return [
        Told("d", change.table, _text(old_key), before, ""),
        Told("c", change.table, _text(new_key), "", after),
    ]


def _text(row: dict[str, Any] | None, *, nulls: bool = True) -> str:
    """A row as text, with the columns in order but without unchanged ones, which records list separately."""
    row = row or {}
    told = [f"{name}={_value(value)}" for name, value in row.items() if nulls or value is not None]
    return ", ".join(sorted(told, key=lambda column: column.endswith("=...")))


def _value(value: object) -> str:
    if value is None:
        return "NULL"
    return "..." if value is ... else repr(str(value))


def _assert_same(expected: list[tuple[int, list[Told]]], found: list[tuple[int, list[Told]]]) -> None:
    """Compare transaction by transaction; show only the first that differs, since nobody would read all."""
    assert [xid for xid, _ in found] == [xid for xid, _ in expected]
    for (xid, wanted), (_, got) in zip(expected, found, strict=True):
        for position, pair in enumerate(zip(wanted, got, strict=False)):
            assert pair[0] == pair[1], f"change {position} of transaction {xid}"
        assert len(got) == len(wanted), f"transaction {xid}"


def _assert_folds_to_table(database: Database, table: str, records: list[Record], *, keyed: bool) -> None:
    with database.connect() as connection:
        rows = [row for (row,) in connection.execute(f"SELECT to_jsonb(r) FROM {table} r".encode())]
        cursor = connection.execute(f"SELECT * FROM {table} LIMIT 0".encode())
        columns = {column.name for column in cursor.description or ()}

    def shape(row: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in row.items() if name in columns and value is not None}

    folded = fold(records) if keyed else None
    found = fold_keyless(records, shape) if folded is None else Counter(as_text(shape(row)) for row in folded)
    assert found == Counter(as_text(shape(row)) for row in rows)
