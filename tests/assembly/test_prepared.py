"""The store of prepared transactions: durable, by xid and gid, and purged when it is safe."""

import errno
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from pgrelay.assembly.open_transaction import OpenTransaction
from pgrelay.assembly.prepared import PreparedStore, emptying
from pgrelay.assembly.spool import Spool
from pgrelay.errors import GapError, SpoolError, Verdict, verdict
from pgrelay.wire.transactions import Prepare, StreamPrepare

FRAMES = [b"first", b"", b"third"]
NAME = "731-0000000000000830"


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path)


@pytest.fixture
def store(spool: Spool) -> PreparedStore:
    return PreparedStore(spool)


def held(spool: Spool, frames: list[bytes] = FRAMES) -> OpenTransaction:
    transaction = OpenTransaction(731, spool.buffer("731-prepare"))
    for frame in frames:
        transaction.frames.append(frame)
    return transaction


def prepare(gid: str = "g", end_lsn: int = 0x830) -> Prepare:
    return Prepare(end_lsn - 0x30, end_lsn, 0, 731, gid)


def keep(
    store: PreparedStore, spool: Spool, frames: list[bytes] = FRAMES, gid: str = "g", end_lsn: int = 0x830
) -> None:
    store.keep(held(spool, frames), prepare(gid, end_lsn))


def loaded(spool: Spool) -> PreparedStore:
    """The store as the next run of the process finds it."""
    store = PreparedStore(spool)
    list(store.load())
    return store


def frames_of(store: PreparedStore, gid: str = "g") -> list[bytes]:
    entry = store.find(731, gid)
    assert entry is not None
    return [frame for chunk in store.chunks(entry) for frame in chunk]


def files(spool: Spool) -> set[str]:
    return {path.name for path in spool.directory.iterdir()}


@pytest.mark.parametrize("epoch", [0, 1 << 32])
def test_a_missing_transaction_is_a_gap_unless_it_began_in_the_stream(spool: Spool, epoch: int) -> None:
    """Some servers send no Prepare of a transaction that has only locked something."""
    for first in (None, epoch + 732):
        with pytest.raises(GapError, match="its rows are not in"):
            PreparedStore(spool, first).refuse_missing(731, "g", 0x900)
    for first in (epoch + 731, epoch + 5):
        PreparedStore(spool, first).refuse_missing(731, "g", 0x900)


def test_a_kept_transaction_is_found_again_after_a_restart(store: PreparedStore, spool: Spool) -> None:
    transaction = held(spool)
    transaction.aborted |= {735, 733}
    transaction.pinned_relations = {16385: b"\xff", 16384: b"R\0"}
    store.keep(transaction, StreamPrepare(0x800, 0x830, 0, 731, "g"))
    for known in (store, loaded(spool)):
        entry = known.find(731, "g")
        assert entry is not None
        assert (entry.xid, entry.gid, entry.end_lsn, entry.streamed) == (731, "g", 0x830, True)
        assert entry.aborted == [733, 735]
        assert entry.committed is None
        assert frames_of(known) == [b"R\0", b"\xff", *FRAMES]


def test_kept_files_are_private_and_leave_the_spool(store: PreparedStore, spool: Spool) -> None:
    keep(store, spool)
    assert files(spool) == {f"{NAME}.frames", f"{NAME}.prepared"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in spool.directory.iterdir()} == {0o600}
    assert spool.on_disk == 0


def test_frames_spilled_before_the_prepare_are_kept_too(store: PreparedStore, spool: Spool) -> None:
    half = held(spool)
    half.frames.spill()
    half.frames.append(b"after the spill")
    store.keep(half, prepare())
    assert frames_of(loaded(spool)) == [*FRAMES, b"after the spill"]


def test_a_transaction_without_frames_is_kept(store: PreparedStore, spool: Spool) -> None:
    keep(store, spool, [])
    assert frames_of(loaded(spool)) == []


@pytest.mark.parametrize("gid", ["", "../../etc/passwd", "a b/ü", "\udcff", '"\n', "g" * 199], ids=repr)
def test_any_gid_is_kept(store: PreparedStore, spool: Spool, gid: str) -> None:
    """It is the application's own text of at most 199 bytes. It is never part of a file's name."""
    keep(store, spool, gid=gid)
    assert files(spool) == {f"{NAME}.frames", f"{NAME}.prepared"}
    assert frames_of(loaded(spool), gid) == FRAMES


def test_both_gid_and_xid_must_match(store: PreparedStore, spool: Spool) -> None:
    keep(store, spool)
    assert store.find(731, "G") is None
    assert store.find(732, "g") is None


# --- Sent again


def test_a_prepare_sent_again_replaces_the_first(store: PreparedStore, spool: Spool) -> None:
    keep(store, spool)
    keep(store, spool, [b"other frames"])
    assert frames_of(store) == frames_of(loaded(spool)) == [b"other frames"]


def test_the_same_ids_at_another_lsn_replace_the_old_files(store: PreparedStore, spool: Spool) -> None:
    """After a new cluster, or a wraparound of xids, the old one must never be taken for this one."""
    keep(store, spool, end_lsn=0xFF0)
    keep(store, spool, [b"of the new cluster"], end_lsn=0x830)
    assert files(spool) == {f"{NAME}.frames", f"{NAME}.prepared"}
    assert frames_of(loaded(spool)) == [b"of the new cluster"]


# --- Committed, rolled back, purged


def test_a_commit_is_recorded_and_the_rows_stay(store: PreparedStore, spool: Spool) -> None:
    """The server sends the commit again, without the rows, until the slot has passed it."""
    keep(store, spool)
    entry = store.find(731, "g")
    assert entry is not None
    store.mark_committed(entry, 0x930)
    for known in (store, loaded(spool)):
        found = known.find(731, "g")
        assert found is not None
        assert found.committed == 0x930
        assert frames_of(known) == FRAMES


def test_a_rollback_removes_the_transaction(store: PreparedStore, spool: Spool) -> None:
    keep(store, spool)
    store.discard(731, "g")
    assert store.find(731, "g") is None
    assert files(spool) == set()
    store.discard(731, "g")


@pytest.mark.parametrize(("restart_lsn", "purged"), [(0, 0), (0x92F, 0), (0x930, 1), (0xFFFF, 1)])
def test_purge_removes_it_once_restart_lsn_has_passed_its_commit(
    store: PreparedStore, spool: Spool, restart_lsn: int, purged: int
) -> None:
    keep(store, spool)
    entry = store.find(731, "g")
    assert entry is not None
    store.mark_committed(entry, 0x930)
    assert loaded(spool).purge(restart_lsn, 10) == purged
    assert (loaded(spool).find(731, "g") is None) == bool(purged)
    assert files(spool) == (set() if purged else {f"{NAME}.frames", f"{NAME}.prepared"})


def test_purge_removes_a_few_at_a_time(store: PreparedStore, spool: Spool) -> None:
    for number in range(5):
        keep(store, spool, gid=str(number), end_lsn=0x800 + number)
        entry = store.find(731, str(number))
        assert entry is not None
        store.mark_committed(entry, 0x900 + number)
    assert [store.purge(0x903, 3) for _ in range(3)] == [3, 1, 0]
    assert files(spool) != set()
    assert store.purge(0x904, 3) == 1
    assert files(spool) == set()


def test_purge_keeps_an_uncommitted_transaction(store: PreparedStore, spool: Spool) -> None:
    keep(store, spool)
    assert store.purge(2**63, 3) == 0
    assert frames_of(loaded(spool)) == FRAMES


# --- Crashes and damage


def test_frames_without_a_description_are_removed_at_load(store: PreparedStore, spool: Spool) -> None:
    keep(store, spool)
    (spool.directory / "732-0000000000000900.frames").write_bytes(b"...")
    (spool.directory / "732-0000000000000900.tmp").write_bytes(b"{")
    (spool.directory / "733.spool").touch()
    assert loaded(spool).find(732, "g") is None
    assert files(spool) == {f"{NAME}.frames", f"{NAME}.prepared", "733.spool"}


def test_loading_again_forgets_transactions_whose_files_are_gone(store: PreparedStore, spool: Spool) -> None:
    keep(store, spool)
    for path in spool.directory.iterdir():
        path.unlink()
    list(store.load())
    assert store.find(731, "g") is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"xid": 731}', b"\xff"], ids=repr)
def test_a_damaged_description_stops_the_load(store: PreparedStore, spool: Spool, content: bytes) -> None:
    """Without it the commit would have no rows, so the load stops first."""
    keep(store, spool)
    (spool.directory / f"{NAME}.prepared").write_bytes(content)
    with pytest.raises(
        GapError, match=rf"{NAME}\.prepared: not a prepared .*; restore the file, or run pgrelay reset"
    ):
        loaded(spool)


def test_unknown_members_of_a_description_are_ignored(store: PreparedStore, spool: Spool) -> None:
    keep(store, spool)
    path = spool.directory / f"{NAME}.prepared"
    path.write_text(json.dumps({**json.loads(path.read_text()), "new": 1}))
    assert frames_of(loaded(spool)) == FRAMES


def test_every_truncated_file_of_frames_is_refused(store: PreparedStore, spool: Spool) -> None:
    keep(store, spool)
    path = spool.directory / f"{NAME}.frames"
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(GapError, match=rf"{NAME}\.frames: the file ends too early"):
            frames_of(loaded(spool))


@pytest.mark.parametrize("damage", ["flipped", "removed", "zeros"])
def test_damaged_frames_are_a_gap(store: PreparedStore, spool: Spool, damage: str) -> None:
    keep(store, spool)
    path = spool.directory / f"{NAME}.frames"
    content = path.read_bytes()
    path.unlink()
    if damage == "flipped":
        path.write_bytes(content[:-1] + b"\0")
    elif damage == "zeros":
        path.write_bytes(bytes(len(content)))
    why = "No such file or directory" if damage == "removed" else "a chunk is damaged"
    with pytest.raises(
        GapError, match=rf"^prepared transaction 'g' \(xid 731\), .*{NAME}\.frames: {why}.*pgrelay reset"
    ):
        frames_of(loaded(spool))


def test_an_io_error_on_frames_is_retried(
    store: PreparedStore, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    keep(store, spool)
    monkeypatch.setattr(Path, "open", failing)
    with pytest.raises(SpoolError, match="Input/output error"):
        frames_of(store)


def empty(directory: Path) -> None:
    with emptying(directory):
        pass


def test_emptying_removes_only_the_spools_own_files(store: PreparedStore, spool: Spool) -> None:
    keep(store, spool)
    for name in ("700.spool", "732-0.tmp", "notes"):
        (spool.directory / name).touch()
    empty(spool.directory)
    assert files(spool) == {"notes"}
    (spool.directory / "notes").unlink()
    empty(spool.directory)
    assert not spool.directory.exists()
    empty(spool.directory)


def test_a_directory_without_permission_is_not_taken_for_an_absent_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    # As for a directory in one that we may not search. Tests may run as root, who may search any.
    monkeypatch.setattr(os, "stat", denied)
    with pytest.raises(SpoolError, match="/hidden: Permission denied"):
        empty(tmp_path / "hidden")


def test_emptying_refuses_a_directory_that_a_relay_uses(store: PreparedStore, spool: Spool) -> None:
    """It may be that of another server's slot of the same name, whose rows nobody would send again."""
    keep(store, spool)
    spool.open()
    with pytest.raises(SpoolError, match="is in use by another relay"), emptying(spool.directory):
        pytest.fail("it was held")
    spool.close()
    assert loaded(spool).find(731, "g") is not None


def test_what_fails_before_the_emptying_leaves_everything(store: PreparedStore, spool: Spool) -> None:
    keep(store, spool)
    with pytest.raises(GapError), emptying(spool.directory):
        raise GapError("the slot could not be dropped")
    assert loaded(spool).find(731, "g") is not None
    spool.open()


def test_a_description_that_can_not_be_written_keeps_nothing(store: PreparedStore, spool: Spool) -> None:
    """What a restart would forget is not known before it either."""
    (spool.directory / f"{NAME}.tmp").symlink_to("/dev/full")
    with pytest.raises(SpoolError, match=rf"{NAME}\.prepared: No space left on device"):
        keep(store, spool)
    assert store.find(731, "g") is None
    assert loaded(spool).find(731, "g") is None
    assert files(spool) == set()


def test_a_crash_while_one_is_replaced_leaves_no_older_one(store: PreparedStore, spool: Spool) -> None:
    """Its rows are another transaction's, of the same ids."""
    keep(store, spool, frames=[b"older"], end_lsn=0x730)
    (spool.directory / f"{NAME}.tmp").symlink_to("/dev/full")
    with pytest.raises(SpoolError):
        keep(store, spool)
    assert store.find(731, "g") is None
    assert loaded(spool).find(731, "g") is None
    assert files(spool) == set()


# --- A disk that turns read-only


@pytest.fixture
def undeletable(store: PreparedStore, spool: Spool, monkeypatch: pytest.MonkeyPatch) -> PreparedStore:
    """A store that knows a committed transaction and can't delete anything any more."""
    keep(store, spool)
    entry = store.find(731, "g")
    assert entry is not None
    store.mark_committed(entry, 0x930)
    monkeypatch.setattr(Path, "unlink", read_only)
    return store


def read_only(*_: object, **__: object) -> None:
    raise OSError(errno.EROFS, "Read-only file system")


@pytest.mark.parametrize("end", [lambda it: it.purge(0x930, 3), lambda it: it.discard(731, "g")])
def test_files_that_can_not_be_removed_are_retried_and_stay_known(
    undeletable: PreparedStore, end: Callable[[PreparedStore], object]
) -> None:
    with pytest.raises(SpoolError, match=rf"{NAME}\.prepared: Read-only file system") as caught:
        end(undeletable)
    assert verdict(caught.value) is Verdict.RETRY
    assert frames_of(undeletable) == FRAMES


@pytest.mark.parametrize("left", ["732-0000000000000900.frames", "732-0000000000000900.tmp"])
def test_leftovers_that_can_not_be_removed_are_retried(
    undeletable: PreparedStore, spool: Spool, left: str
) -> None:
    (spool.directory / left).touch()
    with pytest.raises(SpoolError, match=f"{left}: Read-only file system"):
        list(undeletable.load())


def test_a_directory_that_can_not_be_read_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(SpoolError, match="/gone: No such file or directory"):
        list(PreparedStore(Spool(tmp_path / "gone")).load())
