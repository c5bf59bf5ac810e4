"""Reads the fields of one message, and checks their bounds. Network byte order, as all of the protocol."""

from typing import Final

from librt.strings import read_i16_be, read_i32_be, read_i64_be

from pgrelay.errors import ProtocolError

U32: Final = 0xFFFF_FFFF
U64: Final = 0xFFFF_FFFF_FFFF_FFFF


def read_u32(data: bytes, pos: int) -> int:
    """An OID or a transaction id. Raises IndexError past the end."""
    signed: int = read_i32_be(data, pos)
    return signed & U32


class Cursor:
    """Reads fields one after another, and refuses to read past the end or to leave bytes behind.

    `pos` is the offset of the next unread byte. Errors name the message, `message`, and the field, `what`.
    """

    def __init__(self, message: str, data: bytes, pos: int = 0) -> None:
        self.message = message
        self.data = data
        self.pos = pos

    def _advance(self, size: int, what: str) -> int:
        start = self.pos
        if size < 0 or start + size > len(self.data):
            raise ProtocolError(
                f"{self.message} is truncated: {what} at offset {start} wants {size} bytes, "
                f"the message ends at {len(self.data)}"
            )
        self.pos = start + size
        return start

    def u8(self, what: str) -> int:
        return self.data[self._advance(1, what)]

    def i16(self, what: str) -> int:
        return int(read_i16_be(self.data, self._advance(2, what)))

    def i32(self, what: str) -> int:
        return int(read_i32_be(self.data, self._advance(4, what)))

    def u32(self, what: str) -> int:
        """An OID or a transaction id."""
        return self.i32(what) & U32

    def i64(self, what: str) -> int:
        return int(read_i64_be(self.data, self._advance(8, what)))

    def u64(self, what: str) -> int:
        """An LSN."""
        return self.i64(what) & U64

    def require_no_flags(self) -> None:
        """Int8(0), unused: a flag set here would change the message in a way unknown to us."""
        flags = self.u8("flags")
        if flags != 0:
            raise ProtocolError(f"{self.message} has unknown flags 0x{flags:02X} at offset {self.pos - 1}")

    def require_nonnegative(self, value: int, what: str) -> int:
        """Refuse a negative count."""
        if value < 0:
            raise ProtocolError(f"{self.message} has {value} {what} before offset {self.pos}")
        return value

    def take(self, size: int, what: str) -> bytes:
        start = self._advance(size, what)
        return self.data[start : start + size]

    def string(self, what: str) -> str:
        """A null-terminated string; identifiers arrive in UTF-8, since the session pins client_encoding."""
        end = self.data.find(b"\0", self.pos)
        if end < 0:
            raise ProtocolError(
                f"{self.message} is truncated: {what} at offset {self.pos} has no terminating zero byte"
            )
        raw = self.data[self.pos : end]
        self.pos = end + 1
        # An SQL_ASCII database does not convert; bytes that are not UTF-8 survive as lone surrogates.
        return raw.decode("utf-8", "surrogateescape")

    def require_end(self) -> None:
        """Refuse bytes left over."""
        if self.pos != len(self.data):
            raise ProtocolError(
                f"{self.message} is oversized: {len(self.data) - self.pos} bytes left at offset {self.pos}"
            )
