"""Whether a partly delivered transaction gets the same `seq` for each record when it comes again.

`seq` counts the records of a transaction, so it is the same on every repetition only as long as the same
changes become records. A digest of the settings that decide this is kept with each position in Kafka.
"""

import hashlib
import json
from typing import Final

from pgrelay.config import Config
from pgrelay.errors import PositionError
from pgrelay.kafka.offsets import Position
from pgrelay.lsn import format_lsn

_SETTINGS: Final = (
    "source.publications, source.messages, source.origin, or records.tables, key, numeric, time or format"
)

# What `check` finds, and a start logs, under at_least_once.
RENUMBERED: Final = f"{_SETTINGS} changed since the last run"
RENUMBERED_WHY: Final = (
    "if that ended within a transaction, its records come again with other seqs, and consumers that skip "
    "repetitions may skip rows"
)
RENUMBERED_CURE: Final = (
    "unless it had caught up and was stopped cleanly, run with the earlier settings until it has, then "
    "change them"
)


def numbering(config: Config) -> str:
    """A digest of the settings that decide which changes become records, and which become two.

    A change of the key becomes two, and the encoding decides whether 1.0 and 1.00 are two keys.
    """
    source, records = config.source, config.records
    lists = source.publications, records.tables.include, records.tables.exclude
    settings = (
        *(sorted(set(names)) for names in lists),
        *(source.messages, source.origin),
        *(records.key, records.numeric, records.time, records.format),
    )
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:16]


def renumbers(position: Position, now: str | None) -> bool:
    """Whether a position was kept under other settings; False if it has no digest."""
    return position.numbering not in (None, now)


def check_numbering(position: Position, now: str | None) -> None:
    """Exactly once: refuse to resume inside a transaction whose records were counted under other settings.

    Raises PositionError.
    """
    if position.seq and position.commit_lsn is not None and renumbers(position, now):
        raise PositionError(
            f"Kafka has the first {position.seq} records of the transaction that commits at "
            f"{format_lsn(position.commit_lsn)}, counted before {_SETTINGS} changed; run with the earlier "
            "settings until it is delivered, or, if it may come again as a whole, pgrelay reset --keep-slot"
        )
