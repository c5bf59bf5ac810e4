"""Transaction ids of 32 bits, as the stream has them: they wrap around. Source: manual, "Transactions and
Identifiers"."""

from typing import Final

_WRAP: Final = 0xFFFF_FFFF
_HALF: Final = 1 << 31


def xids_ahead(xid: int, other: int) -> int | None:
    """How many xids `xid` is ahead of another; None if it is behind. Either may have 64 bits.

    Less than half of all 32-bit xids are ahead of any one.
    """
    by = (xid - other) & _WRAP
    return by if by < _HALF else None
