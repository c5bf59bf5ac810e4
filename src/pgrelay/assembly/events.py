"""The assembler's output and the encoder's input: transactions in commit order."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionBegin:
    """`xid` is None for a logical message outside any transaction; `commit_us` since 1970.

    `streamed`: its frames have an xid. `scoped`: its relations are its own and end with it.
    """

    xid: int | None
    commit_lsn: int
    commit_us: int
    streamed: bool = False
    scoped: bool = False


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """`end_lsn` is what may be confirmed once every record of the transaction is acknowledged."""

    end_lsn: int


@dataclass(frozen=True, slots=True)
class Watermark:
    """An LSN up to which all was sent: a keepalive's, or that of a transaction put on disk or rolled back.

    It may be confirmed once everything before it is acknowledged.
    """

    lsn: int


Event = TransactionBegin | bytes | TransactionEnd | Watermark
