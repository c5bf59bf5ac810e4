"""Where transactions wait for their commit: in memory first, then in files under one directory.

A `FrameBuffer` holds the raw XLogData frames of one transaction in order. Frames are gathered in chunks of
about 1 MiB. Spilled chunks go to the buffer's file, each after its length and CRC, so that a torn file is
detected and never replayed as if it were whole. Order on replay: the file, then what is still in memory.

A file lives as long as its transaction is open in this process. What a crash leaves behind is removed by
`Spool.remove_stale`, once the slot is ours. Prepared transactions outlive the process: see prepared.py.
"""

import contextlib
import errno
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import BinaryIO, Final

from librt.strings import BytesWriter, read_i32_be, write_i32_be
from mypy_extensions import i64

from pgrelay.assembly.spool_files import (
    files_ending,
    lock,
    make_private,
    open_private,
    remove_file,
    spool_error,
)
from pgrelay.errors import SetupError, SpoolDamaged

CHUNK_SIZE: Final = 1 << 20
SPOOL_SUFFIX: Final = ".spool"

# Length of the chunk and its CRC-32, each 4 bytes unsigned.
_CHUNK_HEADER: Final = Struct("!II")

# Errors of a directory that can never be created.
_PERMANENT_ERRNOS: Final = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EEXIST,
        errno.ENOTDIR,
        errno.ENOENT,
        errno.EROFS,
        errno.ELOOP,
        errno.ENAMETOOLONG,
    }
)


class Spool:
    """One directory of spool files, this relay's own.

    `on_disk` counts the bytes there now, `in_memory` those of all its buffers that are not there.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.in_memory = 0
        self.on_disk = 0
        self._written = 0
        self._lock: int | None = None

    def open(self) -> None:
        """Create the directory, and hold it exclusively until `close`.

        Raises SetupError if it can never be ours, SpoolError if the disk fails or another relay has it.
        """
        self.create()
        self._lock = lock(self.directory)

    def close(self) -> None:
        """Let another relay have the directory."""
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None

    def create(self) -> None:
        """Create the directory if it is missing. Raises SetupError if it can never be ours, or SpoolError."""
        try:
            make_private(self.directory)
        except OSError as error:
            # A disk that turned read-only under a directory of ours may recover.
            turned_read_only = error.errno == errno.EROFS and self.directory.is_dir()
            if turned_read_only or error.errno not in _PERMANENT_ERRNOS:
                raise spool_error(self.directory, error) from error
            raise SetupError(
                f"transactions.spool_dir: {self.directory}: {error.strerror}; name a directory that we own"
            ) from error

    def remove_stale(self) -> int:
        """Delete what an earlier run's transactions left behind; returns how many files."""
        stale = files_ending(self.directory, SPOOL_SUFFIX)
        for path in stale:
            remove_file(path)
        return len(stale)

    def add_on_disk(self, size: int) -> None:
        """Count bytes written or, if negative, released."""
        self.on_disk += size
        self._written += max(size, 0)

    def take_written(self) -> int:
        """Bytes written since the last call."""
        written = self._written
        self._written = 0
        return written

    def buffer(self, name: str) -> "FrameBuffer":
        return FrameBuffer(self, self.directory / (name + SPOOL_SUFFIX))


class FrameBuffer:
    """The frames of one transaction. `in_memory` and `on_disk` are bytes."""

    def __init__(self, spool: Spool, path: Path) -> None:
        self.path = path
        self.in_memory = 0
        self.on_disk = 0
        self._spool = spool
        self._file: BinaryIO | None = None
        self._chunks: list[bytes] = []
        self._writer = BytesWriter()

    def append(self, frame: bytes) -> None:
        write_i32_be(self._writer, len(frame))
        self._writer.write(frame)
        size = len(frame) + 4
        self.in_memory += size
        self._spool.in_memory += size
        if len(self._writer) >= CHUNK_SIZE:
            self._close_chunk()

    def _close_chunk(self) -> None:
        self._chunks.append(self._writer.getvalue())
        self._writer = BytesWriter()

    def spill(self) -> None:
        """Move everything held in memory to the file."""
        if len(self._writer):
            self._close_chunk()
        try:
            if self._file is None:
                self._file = open_private(self.path)
            for chunk in self._chunks:
                self._file.write(_CHUNK_HEADER.pack(len(chunk), zlib.crc32(chunk)))
                self._file.write(chunk)
                self._add_on_disk(_CHUNK_HEADER.size + len(chunk))
            self._file.flush()
        except OSError as error:
            raise spool_error(self.path, error) from error
        self._empty_memory()

    def sync(self) -> None:
        """Put what was spilled on stable storage."""
        assert self._file is not None
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise spool_error(self.path, error) from error

    def _add_on_disk(self, size: int) -> None:
        self.on_disk += size
        self._spool.add_on_disk(size)

    def _empty_memory(self) -> None:
        self._spool.in_memory -= self.in_memory
        self.in_memory = 0
        self._chunks = []

    def chunks(self) -> Iterator[list[bytes]]:
        """All frames in order, one chunk's at a time.

        Raises SpoolDamaged if the file does not hold what was written to it.
        """
        if self._file is not None:
            yield from read_chunks(self.path, self.on_disk)
        for chunk in self._chunks:
            yield _split(chunk)
        if len(self._writer):
            yield _split(self._writer.getvalue())

    def keep_as(self, path: Path) -> int:
        """Put every frame on stable storage under `path` and forget it; returns the file's size."""
        self.spill()
        self.sync()
        assert self._file is not None
        try:
            self._file.close()
            self.path.rename(path)
        except OSError as error:
            raise spool_error(path, error) from error
        self._file = None
        size = self.on_disk
        self._reset()
        return size

    def discard(self) -> None:
        """Drop the frames, whether their file could be written or not."""
        if self._file is not None:
            # On a full disk closing fails too, because of what is still buffered.
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
            with contextlib.suppress(OSError):
                self.path.unlink()
        self._reset()

    def _reset(self) -> None:
        self._spool.add_on_disk(-self.on_disk)
        self.on_disk = 0
        self._empty_memory()
        self._writer = BytesWriter()


def read_chunks(path: Path, size: int) -> Iterator[list[bytes]]:
    """The frames of a spool file that must hold `size` bytes, one chunk's at a time.

    Raises SpoolDamaged if it does not, SpoolError if it can't be read now.
    """
    try:
        with path.open("rb") as file:
            left = size
            while left:
                length, crc = _CHUNK_HEADER.unpack(_read_exactly(file, _CHUNK_HEADER.size, path))
                left -= _CHUNK_HEADER.size + length
                # No chunk is empty; but zeros, which a disk may leave, look like empty chunks, CRC and all.
                if left < 0 or length == 0:
                    raise SpoolDamaged(f"{path}: a chunk is damaged ({length} bytes long); check the disk")
                chunk = _read_exactly(file, length, path)
                if zlib.crc32(chunk) != crc:
                    raise SpoolDamaged(f"{path}: a chunk is damaged (CRC differs); check the disk")
                yield _split(chunk)
    except FileNotFoundError as error:
        raise SpoolDamaged(f"{path}: {error.strerror}; see what removed it") from error
    except OSError as error:
        raise spool_error(path, error) from error


def _read_exactly(file: BinaryIO, size: int, path: Path) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise SpoolDamaged(f"{path}: the file ends too early; see what cut it short")
    return data


def _split(chunk: bytes) -> list[bytes]:
    frames: list[bytes] = []
    pos: i64 = 0
    while pos < len(chunk):
        end: i64 = pos + 4 + i64(read_i32_be(chunk, pos))
        frames.append(chunk[pos + 4 : end])
        pos = end
    return frames
