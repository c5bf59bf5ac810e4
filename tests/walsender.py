"""A miniature walsender: the frames that PostgreSQL would send for a workload, and the expected result.

Transactions run concurrently on a few tables, one row per insert. A table has a key `id` and one more column,
which every ALTER TABLE renames, so a row that is decoded with a wrong Relation is detected. Locks are as in
PostgreSQL: a transaction that alters a table locks it exclusively until it ends.

What is sent follows the sources of PostgreSQL 18: `logical/reorderbuffer.c` for segments, commits and aborts,
`pgoutput/pgoutput.c` (maybe_send_schema, cleanup_rel_sync_cache) for when a Relation is sent and when not.
"""

from dataclasses import dataclass, field
from typing import Final

from tests.wire import build
from tests.wire.build import Column

TABLES: Final = 2
_FIRST_OID: Final = 16384


@dataclass
class Row:
    """An insert by a (sub)transaction into the `version`-th shape of its table. `frame`: as last sent."""

    xid: int
    lsn: int
    table: int
    version: int
    id: int
    frame: bytes = b""

    def after(self) -> dict[str, object]:
        """The row as JSON."""
        return {"id": self.id, f"version_{self.version}": "x" * 20}


@dataclass
class Transaction:
    """A running transaction. Subtransactions form a tree below its xid, by the one they were begun in."""

    xid: int
    savepoints: list[int] = field(default_factory=list)
    parents: dict[int, int] = field(default_factory=dict)
    sent: list[Row] = field(default_factory=list)
    unsent: list[Row] = field(default_factory=list)
    streamed: bool = False
    altered: list[tuple[int, int, int]] = field(default_factory=list)
    tables: set[int] = field(default_factory=set)
    gid: str = ""

    @property
    def current_xid(self) -> int:
        return self.savepoints[-1] if self.savepoints else self.xid

    def below(self, subxid: int) -> list[int]:
        """The subtransaction and all that were begun inside it, innermost first."""
        found = [subxid]
        for child, parent in self.parents.items():
            if parent in found:
                found.append(child)
        return found[::-1]


@dataclass(frozen=True)
class Committed:
    """An expected result. `xid` is None for a logical message outside any transaction."""

    xid: int | None
    commit_lsn: int
    end_lsn: int
    frames: list[bytes]
    rows: list[Row]


@dataclass
class _Described:
    """What the walsender remembers about a table: its shape, and which transactions have its Relation."""

    version: int
    session: bool = False
    streams: set[int] = field(default_factory=set)


class Walsender:
    """`connections` has the frames of each connection; `committed` is the oracle.

    `rolled_back` are the subtransactions that were, as the server can be asked.
    """

    def __init__(self) -> None:
        self.connections: list[list[bytes]] = [[]]
        self.committed: list[Committed] = []
        self.running: list[Transaction] = []
        self.prepared: list[Transaction] = []
        self.rolled_back: set[int] = set()
        self._lsn = 0x1000
        self._xid = 700
        self._id = 0
        self._version = 0
        self._shapes = dict.fromkeys(range(TABLES), 0)
        self._described: dict[int, _Described] = {}

    # --- What sessions do

    def begin(self) -> Transaction:
        transaction = Transaction(self._next_xid())
        self.running.append(transaction)
        return transaction

    def insert(self, transaction: Transaction, table: int) -> None:
        if self._locked(transaction, table):
            return
        transaction.tables.add(table)
        self._id += 1
        xid, version = transaction.current_xid, self._shape(transaction, table)
        transaction.unsent.append(Row(xid, self._advance(), table, version, self._id))

    def alter(self, transaction: Transaction, table: int) -> None:
        """ALTER TABLE ... RENAME COLUMN."""
        if any(table in other.tables for other in self._alive() if other is not transaction):
            return
        transaction.tables.add(table)
        self._version += 1
        self._advance()
        transaction.altered.append((transaction.current_xid, table, self._version))

    def savepoint(self, transaction: Transaction) -> None:
        subxid = self._next_xid()
        transaction.parents[subxid] = transaction.current_xid
        transaction.savepoints.append(subxid)

    def release(self, transaction: Transaction) -> None:
        if transaction.savepoints:
            transaction.savepoints.pop()

    def rollback_to(self, transaction: Transaction, announced: bool = True) -> None:
        """`announced`: if not, the server has forgotten that it sent anything of it."""
        if not transaction.savepoints:
            return
        gone = transaction.below(transaction.savepoints.pop())
        self.rolled_back.update(gone)
        for subxid in gone:
            if announced and any(row.xid == subxid for row in transaction.sent):
                self._stream_abort(transaction, subxid)
        transaction.sent = [row for row in transaction.sent if row.xid not in gone]
        transaction.unsent = [row for row in transaction.unsent if row.xid not in gone]
        transaction.altered = [change for change in transaction.altered if change[0] not in gone]

    def commit(self, transaction: Transaction) -> None:
        self.running.remove(transaction)
        self._keep_shapes(transaction)
        if not transaction.streamed and not transaction.unsent:
            return
        if transaction.streamed:
            self.stream(transaction)
        commit_lsn, end_lsn = self._commit_lsns()
        if transaction.streamed:
            self._send(build.stream_commit(transaction.xid, commit_lsn, end_lsn), end_lsn)
            for described in self._described.values():
                if transaction.xid in described.streams:
                    described.streams.remove(transaction.xid)
                    described.session = True
        else:
            self._send(build.begin(commit_lsn, xid=transaction.xid), transaction.unsent[0].lsn)
            self._send_rows(transaction)
            self._send(build.commit(commit_lsn, end_lsn), end_lsn)
        self._expect(transaction, commit_lsn, end_lsn)

    def abort(self, transaction: Transaction) -> None:
        self.running.remove(transaction)
        self._advance()
        if transaction.streamed:
            for subxid in transaction.below(transaction.xid):
                self._stream_abort(transaction, subxid)

    def prepare(self, transaction: Transaction) -> None:
        """PREPARE TRANSACTION."""
        self.running.remove(transaction)
        self.prepared.append(transaction)
        transaction.gid = f"gid-{transaction.xid}"
        if transaction.streamed:
            self.stream(transaction)
        prepare_lsn, end_lsn = self._commit_lsns()
        ids = prepare_lsn, end_lsn, transaction.xid, transaction.gid
        if transaction.streamed:
            self._send(build.stream_prepare(*ids), end_lsn)
        else:
            self._send(build.begin_prepare(*ids), prepare_lsn)
            self._send_rows(transaction)
            self._send(build.prepare(*ids), end_lsn)

    def commit_prepared(self, transaction: Transaction) -> None:
        self.prepared.remove(transaction)
        self._keep_shapes(transaction)
        commit_lsn, end_lsn = self._commit_lsns()
        self._send(build.commit_prepared(commit_lsn, end_lsn, transaction.xid, transaction.gid), end_lsn)
        self._expect(transaction, commit_lsn, end_lsn)

    def rollback_prepared(self, transaction: Transaction) -> None:
        self.prepared.remove(transaction)
        _, end_lsn = self._commit_lsns()
        self._send(build.rollback_prepared(end_lsn, end_lsn, transaction.xid, transaction.gid), end_lsn)

    def message(self) -> None:
        """pg_logical_emit_message, outside any transaction: its LSN is where the next record begins."""
        lsn = self._advance() + 0x40
        self._send(build.message("audit", b"...", lsn=lsn, transactional=False), lsn)
        self.committed.append(Committed(None, lsn, lsn, [self.connections[-1][-1]], []))

    # --- What the walsender does by itself

    def stream(self, transaction: Transaction) -> None:
        """Send the changes so far of a running transaction."""
        if not transaction.unsent:
            return
        first = transaction.unsent[0]
        self._send(build.stream_start(transaction.xid, first=not transaction.streamed), first.lsn)
        transaction.streamed = True
        self._send_rows(transaction)
        self._send(build.stream_stop(), 0)

    def keepalive(self) -> None:
        self.connections[-1].append(build.keepalive(self._lsn))

    def stray_abort(self) -> None:
        """PostgreSQL 18 sends the abort of a transaction that it never streamed."""
        self._send(build.stream_abort(self._next_xid()), self._advance())

    def reconnect(self) -> None:
        """Committed and prepared transactions are confirmed; running ones are sent again in full."""
        self.connections.append([])
        self._described = {}
        for transaction in self.running:
            transaction.unsent = transaction.sent + transaction.unsent
            transaction.sent = []
            transaction.streamed = False

    # --- How

    def _next_xid(self) -> int:
        self._xid += 1
        return self._xid

    def _advance(self) -> int:
        self._lsn += 0x40
        return self._lsn

    def _commit_lsns(self) -> tuple[int, int]:
        lsn = self._advance()
        return lsn, lsn + 0x30

    def _alive(self) -> list[Transaction]:
        return self.running + self.prepared

    def _locked(self, transaction: Transaction, table: int) -> bool:
        others = (other for other in self._alive() if other is not transaction)
        return any(altered == table for other in others for _, altered, _ in other.altered)

    def _shape(self, transaction: Transaction, table: int) -> int:
        own = [version for _, altered, version in transaction.altered if altered == table]
        return own[-1] if own else self._shapes[table]

    def _keep_shapes(self, transaction: Transaction) -> None:
        for _, table, version in transaction.altered:
            self._shapes[table] = version

    def _send(self, message: bytes, lsn: int) -> None:
        self.connections[-1].append(build.xlog_data(message, lsn))

    def _send_rows(self, transaction: Transaction) -> None:
        for row in transaction.unsent:
            self._describe(transaction, row)
            xid = row.xid if transaction.streamed else None
            values = [str(row.id), "x" * 20]
            row.frame = build.xlog_data(build.insert(_FIRST_OID + row.table, values, xid), row.lsn)
            self.connections[-1].append(row.frame)
        transaction.sent += transaction.unsent
        transaction.unsent = []

    def _describe(self, transaction: Transaction, row: Row) -> None:
        """Send the Relation, unless the reader has it."""
        described = self._described.get(row.table)
        if described is None or described.version != row.version:
            described = self._described[row.table] = _Described(row.version)
        if transaction.streamed:
            if transaction.xid in described.streams:
                return
            described.streams.add(transaction.xid)
        else:
            if described.session:
                return
            described.session = True
        columns = [Column("id", build.INT8, key=True), Column(f"version_{row.version}")]
        xid = row.xid if transaction.streamed else None
        name = f"table_{row.table}"
        self._send(build.relation(_FIRST_OID + row.table, "public", name, "d", columns, xid), 0)

    def _stream_abort(self, transaction: Transaction, subxid: int) -> None:
        self._send(build.stream_abort(transaction.xid, subxid), self._advance())
        for described in self._described.values():
            described.streams.discard(transaction.xid)

    def _expect(self, transaction: Transaction, commit_lsn: int, end_lsn: int) -> None:
        frames = [row.frame for row in transaction.sent]
        self.committed.append(Committed(transaction.xid, commit_lsn, end_lsn, frames, transaction.sent))
