"""Transaction ids of 32 bits, as the stream has them: they wrap around. Source: manual, "Transactions and
Identifiers"."""

from typing import Final

_WRAP: Final = 0xFFFF_FFFF
_HALF: Final = 1 << 31


def xids_ahead(xid: int, other: int) -> int | None:
    """How far `xid` lies at or ahead of another xid; None if it lies behind. Either may have 64 bits.

    Of any transaction's ids, less than half lie ahead of it.
    """
    by = (xid - other) & _WRAP
    return by if by < _HALF else None
