"""What Postgres reports about the relay's slot."""

from typing import Any, Final, LiteralString, Self

import psycopg

from pgrelay.lsn import parse_lsn

_ACTIVE: Final = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"
_CONFIRMED: Final = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
_STREAMED: Final = "SELECT stream_txns, stream_count FROM pg_stat_replication_slots WHERE slot_name = %s"


class Slot:
    """Queries the slot over its own connection, which is open while the block runs."""

    def __init__(self, dsn: str, name: str) -> None:
        self._dsn = dsn
        self._name = name

    def __enter__(self) -> Self:
        self.connection = psycopg.connect(self._dsn, autocommit=True, application_name="pgrelay demo")
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def active(self) -> bool:
        """Whether a relay streams from it."""
        row = self._row(_ACTIVE)
        return row is not None and row[0]

    def confirmed(self) -> int:
        """The LSN that the relay has confirmed: everything up to it is in Kafka."""
        row = self._row(_CONFIRMED)
        return parse_lsn(row[0]) if row is not None else 0

    def streamed(self) -> tuple[int, int]:
        """How many transactions were sent before they committed, and in how many parts."""
        row = self._row(_STREAMED)
        return (row[0], row[1]) if row is not None else (0, 0)

    def wal_end(self) -> int:
        row = self.connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        assert row is not None
        return parse_lsn(row[0])

    def _row(self, query: LiteralString) -> tuple[Any, ...] | None:
        return self.connection.execute(query, (self._name,)).fetchone()
