"""Puts transactions that arrive interleaved into commit order.

Theory of operation. The server sends a transaction in one of three ways:

plain      Begin, changes, Commit: sent at its commit, so it passes straight through, frame by frame
streamed   StreamStart, changes, StreamStop, in as many segments as it takes and mixed with those of other
           transactions; then StreamCommit, StreamAbort, or StreamPrepare
prepared   BeginPrepare, changes, Prepare; and long after, CommitPrepared or RollbackPrepared

Streamed and prepared transactions wait as raw frames in the spool. A StreamAbort of a subtransaction drops
only the changes with its xid; one of the transaction itself drops everything. The server may forget to send
one, so it is asked when a streamed transaction has ended: see `in_doubt`. At the commit the frames are
replayed, without the aborted ones, as if they were sent only then. A replay may be huge, so it is taken in
slices: `receive` must not be called while `replaying`, nor while any are `in_doubt`.

The output is events in commit order: TransactionBegin, frames and TransactionEnd, over and over, and at times
a Watermark: an LSN, such as a keepalive's WAL end, that may be confirmed once all before it is. A frame is a
whole CopyData message. In a `streamed` transaction, the body of an XLogData frame begins after the
4-byte xid that follows the tag (but Origin has none). Relation and Type come outside of transactions too.

After a reconnect half-streamed transactions are useless, since the server sends them again from their first
segment: begin with a new Assembler and `close` the old one. Prepared ones are kept on disk.

Source: PostgreSQL manual, "Logical Replication Message Formats", and "Logical Decoding", "Streaming of Large
Transactions" and "Two-phase Commit Support".
"""

from collections.abc import Iterable, Sequence

from pgrelay.assembly.events import Event, TransactionBegin, TransactionEnd, Watermark
from pgrelay.assembly.open_transaction import OpenTransaction, StreamEnd
from pgrelay.assembly.prepared import PreparedStore
from pgrelay.assembly.relations import SessionRelations
from pgrelay.assembly.replay import Replay
from pgrelay.assembly.spool import Spool
from pgrelay.errors import GapError, ProtocolError
from pgrelay.lsn import format_lsn
from pgrelay.wire import pgoutput, tags, transactions
from pgrelay.wire.replication import (
    HEADER_SIZE,
    KEEPALIVE,
    XLOG_DATA,
    PrimaryKeepalive,
    check_frame,
    frame_lsn,
    frame_sent_us,
    id_after_tag,
)


class Assembler:
    """The transactions of one connection. `memory_limit` is in bytes, for all open transactions together.

    `two_phase`: any may end in a Prepare, which puts it on stable storage. `server_lsn` is the highest WAL
    position that the server has named outside of a transaction's changes. What ends by `delivered_lsn` is in
    Kafka. `in_doubt` are subtransactions of a transaction that has just ended; until `resolve` is told which
    of them were rolled back, all else waits.
    """

    def __init__(
        self, spool: Spool, prepared: PreparedStore, memory_limit: int, two_phase: bool = False
    ) -> None:
        self.server_lsn = 0
        self.delivered_lsn = 0
        self.spool = spool
        self._prepared = prepared
        self._memory_limit = memory_limit
        self._two_phase = two_phase
        self._events: list[Event] = []
        self._open: dict[int, OpenTransaction] = {}
        self._plain: transactions.Begin | None = None
        self._segment: OpenTransaction | None = None
        self._preparing: OpenTransaction | None = None
        self._ended: tuple[OpenTransaction, StreamEnd] | None = None
        self._replay: Replay | None = None
        self.in_doubt: Sequence[int] = ()
        # Those that prepared transactions need are kept with them, since they outlive the session.
        self._relations = SessionRelations()

    @property
    def replaying(self) -> bool:
        return self._replay is not None

    @property
    def in_segment(self) -> bool:
        """Whether what comes next belongs to a streamed transaction, and so waits for its commit."""
        return self._segment is not None

    def take_events(self) -> list[Event]:
        """The events since the last call."""
        events = self._events
        self._events = []
        return events

    def note_delivered(self, lsn: int) -> None:
        """Note that what ends at `lsn` or before is in Kafka."""
        self.delivered_lsn = max(self.delivered_lsn, lsn)

    def receive_all(self, frames: list[bytes], start: int) -> int:
        """Take frames from index `start` until one must be replayed or asked about; returns the next index.

        Raises as `receive`; but if other frames come before a ProtocolError or GapError, returns the index
        of the one that causes it, and the next call raises.
        """
        index = start
        try:
            while index < len(frames) and self._replay is None and self._ended is None:
                self.receive(frames[index])
                index += 1
        except (ProtocolError, GapError):
            if index == start:
                raise
        return index

    def receive(self, frame: bytes) -> None:
        """Take one CopyData message. Raises ProtocolError (with its LSN), SpoolError or GapError."""
        if frame[0] != XLOG_DATA:
            self._keepalive(frame)
            return
        check_frame(frame)
        tag = frame[HEADER_SIZE]
        if self._plain is not None and tag in tags.CHANGES:
            self._events.append(frame)
        elif self._segment is not None and tag in tags.CHANGES:
            if tag != tags.ORIGIN:
                self._segment.subtransactions.add(id_after_tag(frame))
            self._buffer(self._segment, frame)
        elif self._segment is not None and tag in tags.SCHEMA:
            self._relations.record_streamed(self._segment.streamed_relations, tag, frame)
            self._buffer(self._segment, frame)
        elif tag in tags.SCHEMA:
            self._relation_or_type(tag, frame)
        elif self._preparing is not None and tag in tags.CHANGES:
            self._prepare_change(self._preparing, tag, frame)
        elif tag == tags.MESSAGE:
            self._standalone_message(frame)
        else:
            self._control(frame)

    def _keepalive(self, frame: bytes) -> None:
        """Every commit before a keepalive's WAL end has been sent, except one that is being sent now."""
        if frame[0] != KEEPALIVE:
            raise ProtocolError(f"unknown replication message {chr(frame[0])!r}")
        wal_end = PrimaryKeepalive.parse(frame).wal_end
        self.server_lsn = max(self.server_lsn, wal_end)
        if self._plain is None and self._preparing is None:
            self._events.append(Watermark(wal_end))

    def _buffer(self, transaction: OpenTransaction, frame: bytes) -> None:
        transaction.frames.append(frame)
        if self.spool.in_memory > self._memory_limit:
            # One is enough: it is no smaller than the frame that exceeded the limit.
            largest = max(self.open_transactions(), key=lambda each: each.frames.in_memory)
            largest.frames.spill()
            if self._two_phase:
                # So a PREPARE has little left to sync: syncing gigabytes would hold up all else for long.
                largest.frames.sync()

    def open_transactions(self) -> list[OpenTransaction]:
        """The transactions that wait for their commit."""
        waiting = list(self._open.values())
        if self._preparing is not None:
            waiting.append(self._preparing)
        return waiting

    def _relation_or_type(self, tag: int, frame: bytes) -> None:
        """A Relation or Type outside a stream is the session's at once, even in a prepared transaction."""
        oid = id_after_tag(frame)
        if tag == tags.RELATION:
            self._relations.record(oid, frame)
        self._events.append(frame)
        if self._preparing is not None:
            self._buffer(self._preparing, frame)

    def _prepare_change(self, transaction: OpenTransaction, tag: int, frame: bytes) -> None:
        if tag == tags.TRUNCATE:
            message = self._parse(frame)
            assert isinstance(message, pgoutput.Truncate)
            for oid in message.relation_oids:
                transaction.pin_relation(oid, self._relations)
        elif tag in tags.ROWS:
            transaction.pin_relation(id_after_tag(frame), self._relations)
        self._buffer(transaction, frame)

    def _standalone_message(self, frame: bytes) -> None:
        """A logical message outside any transaction: a transaction of its own, for the acknowledgement.

        Its LSN is where its WAL record ends. A commit record may begin there; confirming more
        would confirm that.
        """
        message = self._parse(frame)
        if not isinstance(message, pgoutput.Message) or message.transactional:
            raise self._misplaced(frame)
        self.server_lsn = max(self.server_lsn, message.lsn)
        self._events.append(TransactionBegin(None, message.lsn, frame_sent_us(frame)))
        self._events.append(frame)
        self._events.append(TransactionEnd(message.lsn))

    def _parse(self, frame: bytes) -> pgoutput.PgoutputMessage:
        try:
            return pgoutput.parse(frame, start=HEADER_SIZE)
        except ProtocolError as error:
            raise error.with_lsn(frame_lsn(frame)) from None

    def _misplaced(self, frame: bytes) -> ProtocolError:
        tag = chr(frame[HEADER_SIZE])
        return ProtocolError(f"message {tag!r} out of place, {self._where()}").with_lsn(frame_lsn(frame))

    def _where(self) -> str:
        if self._plain is not None:
            return f"inside transaction {self._plain.xid}"
        if self._segment is not None:
            return f"inside a segment of streamed transaction {self._segment.xid}"
        if self._preparing is not None:
            return f"inside prepared transaction {self._preparing.xid}"
        return "outside any transaction"

    def _control(self, frame: bytes) -> None:
        """A message that begins, ends or cuts a transaction; rare compared with changes."""
        message = self._parse(frame)
        self.server_lsn = max(self.server_lsn, frame_lsn(frame))
        if self._plain is not None and isinstance(message, transactions.Commit):
            self._commit(self._plain, message, frame)
        elif self._segment is not None and isinstance(message, transactions.StreamStop):
            self._segment = None
        elif self._preparing is not None and type(message) is transactions.Prepare:
            self._prepare(self._preparing, message)
            self._preparing = None
        elif self._plain is None and self._segment is None and self._preparing is None:
            self._between_transactions(message, frame)
        else:
            raise self._misplaced(frame)

    def _between_transactions(self, message: pgoutput.PgoutputMessage, frame: bytes) -> None:
        """A message between transactions, or between segments of them."""
        match message:
            case transactions.Begin():
                self._plain = message
                self._events.append(TransactionBegin(message.xid, message.commit_lsn, message.commit_us))
            case transactions.StreamStart():
                self._stream_start(message, frame)
            case transactions.StreamCommit() | transactions.StreamPrepare():
                self._end_stream(message, frame)
            case transactions.StreamAbort():
                self._stream_abort(message)
            case transactions.BeginPrepare():
                self._preparing = self._begin_prepare(message.xid)
            case transactions.Prepare():
                # PostgreSQL 18 sends it alone if there is nothing to decode, such as only a lock.
                self._prepare(self._begin_prepare(message.xid), message)
            case transactions.CommitPrepared():
                self._commit_prepared(message)
            case transactions.RollbackPrepared():
                # Without a Prepare there is nothing to drop: it was rolled back while we were away.
                self._prepared.discard(message.xid, message.gid)
                self._discard_streamed(message.xid)
                self._events.append(Watermark(message.end_lsn))
            case _:
                raise self._misplaced(frame)

    def _commit(self, begin: transactions.Begin, commit: transactions.Commit, frame: bytes) -> None:
        if commit.commit_lsn != begin.commit_lsn:
            raise ProtocolError(
                f"transaction {begin.xid} began for commit LSN {format_lsn(begin.commit_lsn)} "
                f"and committed at {format_lsn(commit.commit_lsn)}"
            ).with_lsn(frame_lsn(frame))
        self._plain = None
        self._events.append(TransactionEnd(commit.end_lsn))

    def _stream_start(self, start: transactions.StreamStart, frame: bytes) -> None:
        transaction = self._open.get(start.xid)
        if start.first != (transaction is None):
            known = "is not known" if transaction is None else "has begun already"
            raise ProtocolError(f"StreamStart of transaction {start.xid}, which {known}").with_lsn(
                frame_lsn(frame)
            )
        if transaction is None:
            transaction = OpenTransaction(start.xid, self.spool.buffer(str(start.xid)))
            self._open[start.xid] = transaction
        self._segment = transaction

    def _end_stream(self, end: StreamEnd, frame: bytes) -> None:
        if (transaction := self._open.get(end.xid)) is None:
            unknown = f"{type(end).__name__} of transaction {end.xid}, which has no StreamStart"
            raise ProtocolError(unknown).with_lsn(frame_lsn(frame))
        self._ended = transaction, end
        self.in_doubt = transaction.subtransactions.excluding(transaction.aborted)
        if not self.in_doubt:
            self.resolve([])

    def resolve(self, unannounced: Iterable[int]) -> None:
        """Say which of those `in_doubt` were rolled back. Raises SpoolError."""
        assert self._ended is not None, "nothing is in doubt"
        transaction, end = self._ended
        transaction.unannounced.update(unannounced)
        if isinstance(end, transactions.StreamCommit):
            self._commit_stream(transaction, end)
        else:
            self._prepare(transaction, end)
        del self._open[transaction.xid]
        self._ended, self.in_doubt = None, ()

    def _commit_stream(self, transaction: OpenTransaction, commit: transactions.StreamCommit) -> None:
        self._events.append(TransactionBegin(commit.xid, commit.commit_lsn, commit.commit_us, streamed=True))
        self._replay = Replay(
            transaction.frames.chunks(),
            commit.end_lsn,
            transaction.aborted,
            transaction.unannounced,
            buffer=transaction.frames,
            newer_relations=self._relations.newer_relations(
                transaction.streamed_relations, transaction.aborted
            ),
        )

    def _stream_abort(self, abort: transactions.StreamAbort) -> None:
        # Of an unknown transaction it is legal: PostgreSQL 18 sends them even to clients that do not stream.
        if abort.subxid == abort.xid:
            self._discard_streamed(abort.xid)
        elif (transaction := self._open.get(abort.xid)) is not None:
            transaction.aborted.add(abort.subxid)

    def _discard_streamed(self, xid: int) -> None:
        """Drop a transaction that is streamed, if it is.

        After a reconnect, the server may stream a prepared transaction once more, without a StreamPrepare.
        """
        if (transaction := self._open.pop(xid, None)) is not None:
            transaction.frames.discard()

    def _begin_prepare(self, xid: int) -> OpenTransaction:
        return OpenTransaction(xid, self.spool.buffer(f"{xid}-prepare"))

    def _prepare(self, transaction: OpenTransaction, prepare: transactions.Prepare) -> None:
        self._prepared.keep(transaction, prepare)
        self._events.append(Watermark(prepare.end_lsn))

    def _commit_prepared(self, commit: transactions.CommitPrepared) -> None:
        entry = self._prepared.find(commit.xid, commit.gid)
        self._discard_streamed(commit.xid)
        if entry is None:
            if commit.end_lsn > self.delivered_lsn:
                self._prepared.refuse_missing(commit.xid, commit.gid, commit.commit_lsn)
            # A promoted standby's slot may stand where its primary's stood before we deleted the rows.
            self._events.append(Watermark(commit.end_lsn))
            return
        self._prepared.mark_committed(entry, commit.end_lsn)
        self._events.append(
            TransactionBegin(commit.xid, commit.commit_lsn, commit.commit_us, entry.streamed, scoped=True)
        )
        aborted, unannounced = set(entry.aborted), set(entry.unannounced)
        self._replay = Replay(self._prepared.chunks(entry), commit.end_lsn, aborted, unannounced)

    def replay(self, size: int) -> None:
        """Emit the next frames of a committed transaction, about `size` bytes, and finally its end."""
        replay = self._replay
        assert replay is not None, "nothing is being replayed"
        for frame in replay.take(size):
            self._events.append(frame)
            if frame[HEADER_SIZE] == tags.RELATION and replay.buffer is not None:
                # A stream's Relations are the session's once it commits: the server does not repeat them.
                self._relations.replay(frame)
        if replay.done:
            self._replay = None
            replay.discard()
            self._events.append(TransactionEnd(replay.end_lsn))
            self._events += self._relations.restore(replay.newer_relations)

    def close(self) -> None:
        """Drop every transaction that has not been delivered; the server will send them again."""
        for transaction in self.open_transactions():
            transaction.frames.discard()
        self._open = {}
        self._preparing = None
        self._ended = None
        if self._replay is not None:
            self._replay.discard()
        self._replay = None
