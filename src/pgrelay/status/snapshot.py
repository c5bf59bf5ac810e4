"""The content of the status page and of `pgrelay status` at one moment, and its JSON."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from pgrelay.errors import SetupError
from pgrelay.status.troubles import Trouble

State = Literal["streaming", "waiting", "stuck"]


@dataclass(frozen=True, slots=True)
class Stage:
    """The position of one stage: server, received, acknowledged, confirmed.

    `lsn` is as Postgres prints it, `behind_bytes` is the WAL between the stage before and this one; both are
    None until they are known.
    """

    name: str
    lsn: str | None
    behind_bytes: int | None


@dataclass(frozen=True, slots=True)
class Table:
    """`name` is schema.table; `records` since the process started, `per_s` over the last seconds."""

    name: str
    records: int
    per_s: float


@dataclass(frozen=True, slots=True)
class OpenTransactionSize:
    xid: int
    memory_bytes: int
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class Chart:
    """The last minutes, one value a second, oldest first; the lag is None where it was not known."""

    lag_s: list[float | None]
    lag_bytes: list[int | None]
    records_per_s: list[float]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The status at one moment. Times are Unix seconds; None means not known.

    `tables` and `open` list only the largest of `tables_total` and `open_total`. `retained_wal_bytes` are
    kept for the slot. `safe_wal_bytes` may still be written before it is lost; None also if `wal_limited` is
    false. `config` contains no secret.
    """

    version: str
    slot: str
    state: State
    reason: str
    now_s: float
    started_s: float
    stages: list[Stage]
    lag_s: float | None
    lag_bytes: int | None
    retained_wal_bytes: int | None
    safe_wal_bytes: int | None
    wal_limited: bool | None
    records_per_s: float
    transactions_per_s: float
    latency_p50_s: float | None
    latency_p99_s: float | None
    inflight_records: int
    tables: list[Table]
    tables_total: int
    open: list[OpenTransactionSize]
    open_total: int
    memory_limit_bytes: int
    spooled_bytes: int
    spool_free_bytes: int | None
    troubles: list[Trouble]
    chart: Chart
    config: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The answer of /status."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Parse the output of `as_json`. Raises SetupError if another version produced it."""
        try:
            inner = {
                "stages": [Stage(**stage) for stage in document["stages"]],
                "tables": [Table(**table) for table in document["tables"]],
                "open": [OpenTransactionSize(**transaction) for transaction in document["open"]],
                "troubles": [Trouble(**trouble) for trouble in document["troubles"]],
                "chart": Chart(**document["chart"]),
            }
            return cls(**{**document, **inner})
        except (KeyError, TypeError) as error:
            raise SetupError(
                "the relay that answers has another version; use that version's pgrelay, or --json"
            ) from error
