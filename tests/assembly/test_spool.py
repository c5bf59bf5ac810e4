"""The spool: frames come back unchanged from memory and disk, or not at all."""

import errno
import resource
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.assembly.spool import CHUNK_SIZE, FrameBuffer, Spool, read_chunks
from pgrelay.errors import SetupError, SpoolError, Verdict, verdict

FRAMES = [b"one", b"", b"three" * 100]


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool")
    spool.open()
    yield spool
    spool.close()


@pytest.fixture
def spilled(spool: Spool) -> Iterator[FrameBuffer]:
    buffer = filled(spool.buffer("700"), FRAMES)
    buffer.spill()
    yield buffer
    buffer.discard()


def filled(buffer: FrameBuffer, frames: list[bytes]) -> FrameBuffer:
    for frame in frames:
        buffer.append(frame)
    return buffer


def frames_of(chunks: Iterator[list[bytes]]) -> list[bytes]:
    return [frame for chunk in chunks for frame in chunk]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def damaged(path: Path, at: int, value: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] = value
    path.write_bytes(content)


# --- What goes in comes out


@given(st.lists(st.one_of(st.binary(max_size=20), st.none())))
def test_frames_come_back_in_order_from_memory_and_disk(script: list[bytes | None]) -> None:
    """None: spill here."""
    with TemporaryDirectory() as directory:
        buffer = Spool(Path(directory)).buffer("700")
        for step in script:
            if step is None:
                buffer.spill()
            else:
                buffer.append(step)
        assert frames_of(buffer.chunks()) == [step for step in script if step is not None]
        buffer.discard()


def test_a_transaction_larger_than_a_chunk_comes_back_whole(spool: Spool) -> None:
    frames = [bytes([number]) * (CHUNK_SIZE // 3) for number in range(10)]
    buffer = filled(spool.buffer("700"), frames[:5])
    assert frames_of(buffer.chunks()) == frames[:5]
    buffer.spill()
    filled(buffer, frames[5:])
    assert frames_of(buffer.chunks()) == frames
    buffer.discard()


def test_frames_are_read_one_chunk_at_a_time(spool: Spool) -> None:
    """Or replaying a transaction would take as much memory as it is large."""
    frame = bytes(CHUNK_SIZE // 4)  # its length field makes four of them more than a chunk
    buffer = filled(spool.buffer("700"), [frame] * 10)
    for _ in range(2):
        assert [len(chunk) for chunk in buffer.chunks()] == [4, 4, 2]
        buffer.spill()
    buffer.discard()


def test_nothing_is_written_before_the_buffer_spills(spool: Spool) -> None:
    buffer = filled(spool.buffer("700"), FRAMES)
    assert not buffer.path.exists()
    assert frames_of(buffer.chunks()) == FRAMES


def test_an_empty_buffer_has_no_frames(spool: Spool) -> None:
    assert frames_of(spool.buffer("700").chunks()) == []


# --- Accounting


def test_bytes_in_memory_count_frames_and_their_length_fields(spool: Spool) -> None:
    buffer = filled(spool.buffer("700"), FRAMES)
    assert buffer.in_memory == sum(len(frame) + 4 for frame in FRAMES)
    assert (buffer.on_disk, spool.on_disk) == (0, 0)


def test_spilling_moves_bytes_from_memory_to_disk(spool: Spool, spilled: FrameBuffer) -> None:
    assert spilled.in_memory == 0
    assert spilled.on_disk == spool.on_disk == spilled.path.stat().st_size
    filled(spilled, FRAMES).spill()
    assert spilled.on_disk == spool.on_disk == spilled.path.stat().st_size


def test_discarding_a_buffer_leaves_nothing(spool: Spool, spilled: FrameBuffer) -> None:
    other = filled(spool.buffer("701"), FRAMES)
    other.spill()
    on_disk = other.on_disk
    spilled.append(b"not spilled")
    spilled.discard()
    assert (spilled.in_memory, spilled.on_disk, spool.on_disk) == (0, 0, on_disk)
    assert frames_of(spilled.chunks()) == []
    other.discard()
    assert spool.on_disk == 0
    assert list(spool.directory.iterdir()) == []


def test_bytes_written_are_reported_once_and_stay_counted(spool: Spool, spilled: FrameBuffer) -> None:
    size = spilled.on_disk
    spilled.discard()
    assert spool.take_written() == size
    assert spool.take_written() == 0


# --- The directory


def test_only_we_may_read_the_spool(spool: Spool, spilled: FrameBuffer) -> None:
    assert mode(spool.directory) == 0o700
    assert mode(spilled.path) == 0o600


def test_a_directory_that_can_not_be_made_is_a_setup_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(SetupError, match=r"transactions.spool_dir: .*/taken/spool: Not a directory; name"):
        Spool(tmp_path / "taken" / "spool").open()


def test_a_link_in_place_of_the_directory_is_a_setup_error(tmp_path: Path) -> None:
    """Its files would be deleted as leftovers of ours."""
    (tmp_path / "another's").mkdir(mode=0o755)
    (tmp_path / "spool").symlink_to(tmp_path / "another's")
    with pytest.raises(SetupError, match=r"/spool: it is a symbolic link; name a directory that we own"):
        Spool(tmp_path / "spool").open()
    assert mode(tmp_path / "another's") == 0o755


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
def test_a_directory_in_proc_is_a_setup_error() -> None:
    with pytest.raises(SetupError, match=r"transactions\.spool_dir: /proc/nope: No such file or directory"):
        Spool(Path("/proc/nope")).open()


def test_a_directory_in_use_by_another_relay_is_retried(spool: Spool) -> None:
    """The slots of a primary and its standby may have the same name, and then their files would too."""
    another = Spool(spool.directory)
    with pytest.raises(SpoolError, match="/spool is in use by another relay: a suspended one") as caught:
        another.open()
    assert verdict(caught.value) is Verdict.RETRY
    spool.close()
    another.open()
    another.close()


def test_without_file_locks_a_second_relay_is_let_in(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    another = Spool(spool.directory)
    another.open()
    another.close()


def test_a_full_disk_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(SpoolError, match="free space there"):
        Spool(tmp_path / "a").open()


def test_only_spool_files_left_by_a_crash_are_removed(spool: Spool) -> None:
    for name in ("700.spool", "701-prepare.spool", "702.frames", "702.prepared"):
        (spool.directory / name).touch()
    assert spool.remove_stale() == 2
    assert {path.name for path in spool.directory.iterdir()} == {"702.frames", "702.prepared"}


def read_only(*_: object, **__: object) -> None:
    raise OSError(errno.EROFS, "Read-only file system")


def test_a_directory_on_a_read_only_disk_is_retried(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "chmod", read_only)
    with pytest.raises(SpoolError, match="/spool: Read-only file system"):
        spool.open()


def test_a_leftover_file_of_the_same_name_is_overwritten(spool: Spool) -> None:
    (spool.directory / "700.spool").write_bytes(b"of an earlier run, and longer than ours" * 100)
    buffer = filled(spool.buffer("700"), FRAMES)
    buffer.spill()
    assert frames_of(buffer.chunks()) == FRAMES
    buffer.discard()


# --- Damaged files are never read as whole ones


def test_every_truncated_file_is_refused(spilled: FrameBuffer) -> None:
    content = spilled.path.read_bytes()
    for size in range(len(content)):
        spilled.path.write_bytes(content[:size])
        with pytest.raises(SpoolError, match=r"700\.spool: the file ends too early"):
            frames_of(spilled.chunks())


def test_every_flipped_byte_is_detected(spilled: FrameBuffer) -> None:
    content = spilled.path.read_bytes()
    for at in range(len(content)):
        damaged(spilled.path, at, content[at] ^ 0xFF)
        with pytest.raises(SpoolError, match=r"700\.spool: "):
            frames_of(spilled.chunks())
        spilled.path.write_bytes(content)


def test_a_missing_file_is_refused(spilled: FrameBuffer) -> None:
    spilled.path.unlink()
    with pytest.raises(SpoolError, match=r"700\.spool: No such file or directory"):
        frames_of(spilled.chunks())


def test_a_damaged_chunk_length_is_refused_before_reading(tmp_path: Path) -> None:
    """Reading by it would allocate 4 GiB."""
    path = tmp_path / "700.spool"
    path.write_bytes(b"\xff\xff\xff\xff" + bytes(100))
    with pytest.raises(SpoolError, match=r"a chunk is damaged \(4294967295 bytes long\)"):
        list(read_chunks(path, 104))


@pytest.mark.parametrize("size", [8, 4096, CHUNK_SIZE])
def test_a_file_of_zeros_is_refused(tmp_path: Path, size: int) -> None:
    """A crash of the host may leave one, and a length of 0 has the CRC 0."""
    path = tmp_path / "700.spool"
    path.write_bytes(bytes(size))
    with pytest.raises(SpoolError, match=r"a chunk is damaged \(0 bytes long\)"):
        list(read_chunks(path, size))


def test_a_chunk_of_zeros_is_refused(spool: Spool) -> None:
    """Here 16 zeros look like two empty headers."""
    buffer = filled(spool.buffer("700"), [b"0123"])  # with its length and the header, 16 bytes
    buffer.spill()
    filled(buffer, [b"second"]).spill()
    buffer.path.write_bytes(bytes(16) + buffer.path.read_bytes()[16:])
    with pytest.raises(SpoolError, match=r"a chunk is damaged \(0 bytes long\)"):
        frames_of(buffer.chunks())
    buffer.discard()


def test_chunks_before_the_damage_are_read_but_never_the_end(spool: Spool) -> None:
    buffer = filled(spool.buffer("700"), [b"first"])
    buffer.spill()
    filled(buffer, [b"second"]).spill()
    damaged(buffer.path, -1, 0)
    chunks = buffer.chunks()
    assert next(chunks) == [b"first"]
    with pytest.raises(SpoolError):
        next(chunks)
    buffer.discard()


# --- Full disks


def full(spool: Spool, name: str) -> FrameBuffer:
    """A buffer whose file is on a full disk."""
    buffer = spool.buffer(name)
    buffer.path.symlink_to("/dev/full")
    return buffer


@pytest.mark.parametrize("frame", [b"one", bytes(2 * CHUNK_SIZE)], ids=["buffered", "written through"])
def test_a_full_disk_is_retried_and_the_file_named(spool: Spool, frame: bytes) -> None:
    buffer = filled(full(spool, "700"), [frame])
    with pytest.raises(SpoolError, match=r"/700\.spool: No space left on device; free space there") as caught:
        buffer.spill()
    assert verdict(caught.value) is Verdict.RETRY
    buffer.discard()


@pytest.mark.parametrize("frame", [b"one", bytes(2 * CHUNK_SIZE)], ids=["buffered", "written through"])
def test_discarding_after_a_full_disk_raises_nothing(spool: Spool, frame: bytes) -> None:
    buffer = filled(full(spool, "700"), [frame])
    with pytest.raises(SpoolError):
        buffer.spill()
    buffer.discard()
    assert spool.on_disk == 0
    assert list(spool.directory.iterdir()) == []


def test_a_disk_that_fills_up_between_two_writes_is_an_error(spool: Spool) -> None:
    """The limit on file size allows one chunk and a half."""
    buffer = filled(spool.buffer("700"), [bytes(CHUNK_SIZE)])
    with files_of_at_most(3 * CHUNK_SIZE // 2):
        buffer.spill()
        buffer.append(bytes(CHUNK_SIZE))
        with pytest.raises(SpoolError, match=r"/700\.spool: File too large; free space there"):
            buffer.spill()
        buffer.discard()
    assert spool.on_disk == 0
    assert list(spool.directory.iterdir()) == []


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
