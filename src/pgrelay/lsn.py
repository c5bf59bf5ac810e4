"""Log sequence numbers and Postgres time.

An LSN is a plain ``int``: the byte position in the WAL, 64 bits unsigned. Postgres prints it as two
hexadecimal halves, ``16/B374D848`` (manual, "pg_lsn Type"). Replication messages carry time as
microseconds since 2000-01-01 UTC; everything on our side of the wire is microseconds since 1970.
"""

import re
from typing import Final

# Microseconds from 1970-01-01 to 2000-01-01, the epoch of Postgres's clock.
POSTGRES_EPOCH_US: Final = 946_684_800_000_000

_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


def parse_lsn(text: str) -> int:
    """Read ``X/Y`` as Postgres prints it. Raises ValueError on anything else."""
    match = _LSN.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an LSN: write it as Postgres does, 16/B374D848")
    return int(match[1], 16) << 32 | int(match[2], 16)


def format_lsn(lsn: int) -> str:
    """Write an LSN as Postgres prints it: ``16/B374D848``."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def unix_us(postgres_us: int) -> int:
    """Microseconds since 2000-01-01 UTC to microseconds since 1970-01-01 UTC."""
    return postgres_us + POSTGRES_EPOCH_US


def postgres_us(unix_us: int) -> int:
    """Microseconds since 1970-01-01 UTC to microseconds since 2000-01-01 UTC."""
    return unix_us - POSTGRES_EPOCH_US
