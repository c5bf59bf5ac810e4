"""Prepared transactions on disk, from PREPARE TRANSACTION to some time after COMMIT PREPARED.

Once the end of a Prepare is confirmed, the server sends only CommitPrepared, without the rows: we must have
them by then. So a prepared transaction is two files, written in this order and each synced to disk:

NAME.frames     its raw XLogData frames, as the spool writes them
NAME.prepared   JSON: xid, gid, end_lsn, streamed, subtransactions that were rolled back, size of NAME.frames,
                the Relation frames that its rows rely on, and committed: the end LSN of its commit

The second makes the pair valid; frames without it are leftovers. A committed transaction's pair stays until
the slot's restart_lsn has passed its commit: until then a crashed server may ask for it again.

Since nobody sends these rows again, a damaged file is a gap, not a passing failure.
"""

import base64
import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Final

from pgrelay.assembly.open_transaction import OpenTransaction
from pgrelay.assembly.spool import SPOOL_SUFFIX, Spool, read_chunks
from pgrelay.assembly.spool_files import (
    files_ending,
    lock,
    open_private,
    remove_file,
    spool_error,
    sync_directory,
)
from pgrelay.errors import RESET_CURE, GapError, SpoolDamaged
from pgrelay.lsn import format_lsn
from pgrelay.wire.transactions import Prepare, StreamPrepare
from pgrelay.wire.xid import xids_ahead

_SUFFIXES: Final = (SPOOL_SUFFIX, ".prepared", ".tmp", ".frames")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared transaction. `committed` is the end LSN of its CommitPrepared, None before that.

    `aborted` and `unannounced` are subtransactions that were rolled back, as in `Replay`.
    """

    name: str
    xid: int
    gid: str
    end_lsn: int
    streamed: bool
    size: int
    aborted: list[int] = field(default_factory=list)
    unannounced: list[int] = field(default_factory=list)
    relations: list[str] = field(default_factory=list)
    committed: int | None = None


_FIELDS: Final = frozenset(each.name for each in fields(Prepared))


@contextlib.contextmanager
def emptying(directory: Path) -> Iterator[None]:
    """Keep relays out of a slot's directory; after the block, delete what they kept there and the directory.

    Raises SpoolError, before the block if a relay is in it: that of another server's slot of the same name.
    """
    if not _exists(directory):
        yield
        return
    descriptor = lock(directory)
    try:
        yield
        for suffix in _SUFFIXES:
            for path in files_ending(directory, suffix):
                remove_file(path)
        # It stays if it holds somebody else's file.
        with contextlib.suppress(OSError):
            directory.rmdir()
    finally:
        os.close(descriptor)


def _exists(directory: Path) -> bool:
    try:
        os.stat(directory)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        # We may not search its parent, which may belong to a relay under another account.
        raise spool_error(directory, error) from error
    return True


class PreparedStore:
    """The prepared transactions of one spool directory, by transaction id and gid.

    `first_xid`: transactions from this xid (of 64 bits) on began after the stream did; None if not known.
    """

    def __init__(self, spool: Spool, first_xid: int | None = None) -> None:
        self._first_xid = first_xid
        self._directory = spool.directory
        self._known: dict[tuple[int, str], Prepared] = {}

    def load(self) -> Iterator[None]:
        """Read what earlier runs kept, one file per step, then remove what never became valid.

        There may be very many files, so the caller drives the steps. Raises SpoolError or GapError.
        """
        self._known = {}
        for path in files_ending(self._directory, ".prepared"):
            entry = _read(path)
            self._known[entry.xid, entry.gid] = entry
            yield
        names = {entry.name for entry in self._known.values()}
        for path in files_ending(self._directory, ".tmp"):
            remove_file(path)
        for path in files_ending(self._directory, ".frames"):
            if path.stem not in names:
                remove_file(path)

    def keep(self, transaction: OpenTransaction, prepare: Prepare) -> None:
        """Put a transaction on stable storage, as it ends now. Its LSN may be confirmed when this returns.

        Raises SpoolError.
        """
        xid, gid, end_lsn = prepare.xid, prepare.gid, prepare.end_lsn
        name = f"{xid}-{end_lsn:016X}"
        size = transaction.frames.keep_as(self._directory / f"{name}.frames")
        # The first row's Relation comes last: right before a row of another table, it would describe a
        # partition.
        pinned = reversed(transaction.pinned_relations.values())
        entry = Prepared(
            name,
            xid,
            gid,
            end_lsn,
            streamed=isinstance(prepare, StreamPrepare),
            size=size,
            aborted=sorted(transaction.aborted),
            unannounced=sorted(transaction.unannounced),
            relations=[base64.b64encode(frame).decode() for frame in pinned],
        )
        replaced = self._known.get((xid, gid))
        if replaced is not None and replaced.name != name:
            # From an earlier state of the cluster. It goes first: if a crash left both, `load` could take the
            # wrong one. If it leaves neither, the server sends this one again.
            self._remove(replaced)
            del self._known[xid, gid]
        self._write(entry)
        self._known[xid, gid] = entry

    def find(self, xid: int, gid: str) -> Prepared | None:
        return self._known.get((xid, gid))

    def refuse_missing(self, xid: int, gid: str, commit_lsn: int) -> None:
        """Raise GapError for a COMMIT PREPARED whose transaction is not here, if that may have had rows."""
        if self._first_xid is not None and xids_ahead(xid, self._first_xid) is not None:
            # Its Prepare would have come. Before 15.19, 16.15 and 17.11 there is none if it only took locks.
            return
        raise GapError(
            f"COMMIT PREPARED of {gid!r} (xid {xid}) at {format_lsn(commit_lsn)}, but its rows are not in "
            f"{self._directory}: with two-phase commit, transactions.spool_dir must survive restarts; "
            "restore it, or copy the tables again"
        )

    def chunks(self, entry: Prepared) -> Iterator[list[bytes]]:
        """The Relation frames that the rows rely on, then the transaction's own, chunk by chunk.

        Raises GapError if they are not what was kept, SpoolError if they can't be read now.
        """
        yield [base64.b64decode(frame) for frame in entry.relations]
        try:
            yield from read_chunks(self._directory / f"{entry.name}.frames", entry.size)
        except SpoolDamaged as damage:
            raise GapError(
                f"prepared transaction {entry.gid!r} (xid {entry.xid}), whose rows are not sent again: "
                f"{damage}; restore the file, or {RESET_CURE}"
            ) from damage

    def mark_committed(self, entry: Prepared, end_lsn: int) -> None:
        """Note where its commit ends, after which `purge` may delete it. Raises SpoolError."""
        entry = replace(entry, committed=end_lsn)
        self._write(entry)
        self._known[entry.xid, entry.gid] = entry

    def discard(self, xid: int, gid: str) -> None:
        """Delete a transaction, if it is here. Raises SpoolError."""
        entry = self._known.get((xid, gid))
        if entry is not None:
            self._remove(entry)
            del self._known[xid, gid]

    def purge(self, restart_lsn: int, limit: int) -> int:
        """Delete what was committed before `restart_lsn`: decoding never begins before that.

        At most `limit`, since each takes some tenths of a millisecond. Returns how many.
        """
        passed = (e for e in self._known.values() if e.committed is not None and e.committed <= restart_lsn)
        gone = list(islice(passed, limit))
        for entry in gone:
            self._remove(entry)
            del self._known[entry.xid, entry.gid]
        return len(gone)

    def _write(self, entry: Prepared) -> None:
        path = self._directory / f"{entry.name}.prepared"
        unfinished = path.with_suffix(".tmp")
        try:
            with open_private(unfinished) as file:
                file.write(json.dumps(asdict(entry)).encode())
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(path)
            sync_directory(self._directory)
        except OSError as error:
            raise spool_error(path, error) from error

    def _remove(self, entry: Prepared) -> None:
        remove_file(self._directory / f"{entry.name}.prepared")
        remove_file(self._directory / f"{entry.name}.frames")


def _read(path: Path) -> Prepared:
    try:
        written = json.loads(path.read_bytes())
        # A later version may have more fields.
        return Prepared(**{name: written[name] for name in written if name in _FIELDS})
    except (ValueError, TypeError) as error:
        raise GapError(
            f"{path}: not a prepared transaction of ours ({error}), and its rows are not sent again; "
            f"restore the file, or {RESET_CURE}"
        ) from error
    except OSError as error:
        raise spool_error(path, error) from error
