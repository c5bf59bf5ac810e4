"""The streaming replication protocol: the messages inside CopyData, and the command that starts them.

Formats: PostgreSQL manual, "Streaming Replication Protocol". Times are microseconds since 1970-01-01 UTC,
LSNs are ints.
"""

from dataclasses import dataclass
from typing import Final

from librt.strings import BytesWriter, read_i64_be, write_i64_be

from pgrelay.errors import ProtocolError
from pgrelay.lsn import format_lsn, postgres_us, unix_us
from pgrelay.wire.cursor import U64, Cursor, read_u32

XLOG_DATA: Final = ord("w")
KEEPALIVE: Final = ord("k")

# A frame of XLogData is one tag byte, the start and the end LSN (the same in logical mode, and both 0 on
# messages with no place in the WAL) and the send time, 8 bytes each, then the payload. Nothing builds an
# object of it: the per-row path reads it in place.
HEADER_SIZE: Final = 25

# Where a message's body, that is its own fields, begins in a frame: after the tag and, within a stream, the
# xid, which only Origin lacks. Everywhere `body_at` is one of these, and `body` the bytes from there on.
BODY_AT: Final = 26
STREAMED_BODY_AT: Final = 30


@dataclass(frozen=True, slots=True)
class PrimaryKeepalive:
    """`wal_end`: every commit before it has been sent. `reply`: the server wants a status update now."""

    wal_end: int
    sent_us: int
    reply: bool

    @classmethod
    def parse(cls, frame: bytes) -> "PrimaryKeepalive":
        cursor = Cursor("PrimaryKeepalive", frame, 1)
        message = cls(
            cursor.u64("end LSN"), unix_us(cursor.i64("send time")), cursor.u8("reply requested") != 0
        )
        cursor.require_end()
        return message


@dataclass(frozen=True, slots=True)
class StandbyStatusUpdate:
    """`flush` alone moves the slot; `write` and `apply` are for the server's statistics."""

    write: int
    flush: int
    apply: int
    sent_us: int
    reply: bool = False

    def serialize(self) -> bytes:
        writer = BytesWriter()
        writer.append(ord("r"))
        for lsn in (self.write, self.flush, self.apply):
            # The writer takes signed integers; an LSN is unsigned.
            write_i64_be(writer, lsn - (1 << 64) if lsn >> 63 else lsn)
        write_i64_be(writer, postgres_us(self.sent_us))
        writer.append(int(self.reply))
        return writer.getvalue()


def frame_lsn(frame: bytes) -> int:
    """The start LSN in an XLogData frame's header."""
    signed: int = read_i64_be(frame, 1)
    return signed if signed >= 0 else signed & U64


def frame_sent_us(frame: bytes) -> int:
    """When the server sent an XLogData frame, in microseconds since 1970."""
    return unix_us(read_i64_be(frame, 17))


def check_frame(frame: bytes) -> None:
    """Refuse an XLogData frame that is too short to hold a header and a message tag."""
    if len(frame) <= HEADER_SIZE:
        raise ProtocolError(f"XLogData is truncated: {len(frame)} bytes hold no message")


def id_after_tag(frame: bytes) -> int:
    """The number right after the message's tag: in a stream the xid, else the relation's or type's OID."""
    # Where the number ends: in a stream, the body begins there.
    if len(frame) < STREAMED_BODY_AT:
        raise ProtocolError(f"message {chr(frame[HEADER_SIZE])!r} is truncated").with_lsn(frame_lsn(frame))
    return read_u32(frame, BODY_AT)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of pgoutput, as START_REPLICATION sends them; None leaves an option out."""

    proto_version: int
    publications: tuple[str, ...]
    binary: bool = False
    messages: bool = False
    streaming: str = "off"
    two_phase: bool = False
    origin: str | None = None

    def pairs(self) -> list[tuple[str, str]]:
        names = ",".join(quote_identifier(name) for name in self.publications)
        pairs = [("proto_version", str(self.proto_version)), ("publication_names", names)]
        if self.binary:
            pairs.append(("binary", "true"))
        if self.messages:
            pairs.append(("messages", "true"))
        if self.streaming != "off":
            pairs.append(("streaming", self.streaming))
        if self.two_phase:
            pairs.append(("two_phase", "on"))
        if self.origin is not None:
            pairs.append(("origin", self.origin))
        return pairs


def start_replication(slot: str, lsn: int, options: StreamOptions) -> str:
    """The START_REPLICATION command. `lsn` 0 starts at the slot's position."""
    listed = ", ".join(f"{name} {quote_literal(value)}" for name, value in options.pairs())
    return f"START_REPLICATION SLOT {quote_identifier(slot)} LOGICAL {format_lsn(lsn)} ({listed})"


def quote_identifier(name: str) -> str:
    """Always quoted: the server folds an unquoted publication name to lower case."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(value: str) -> str:
    """A literal in the replication grammar, which has no backslash escapes."""
    return "'" + value.replace("'", "''") + "'"
