"""What a check finds, and how findings are worded: one line each for what, why and the cure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pgrelay.errors import PgrelayError

_SHOWN: Final = 5
_KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Finding:
    """An error would stop a run, a warning would hurt it. `why` and `cure` are empty where all is well.

    `by_a_run`: nothing is wrong with it if it is this relay that runs.
    """

    level: Literal["ok", "warning", "error"]
    what: str
    why: str = ""
    cure: str = ""
    by_a_run: bool = False


def ok(what: str) -> Finding:
    return Finding("ok", what)


def warning(what: str, why: str, cure: str, by_a_run: bool = False) -> Finding:
    return Finding("warning", what, why, cure, by_a_run)


def error(what: str, why: str, cure: str) -> Finding:
    return Finding("error", what, why, cure)


def refused(refusal: PgrelayError, why: str) -> Finding:
    """An error that a run would meet, as a finding. Our messages end in their cure."""
    text = str(refusal)
    what, _, cure = text.rpartition("; " if "; " in text else ": ")
    return error(what, why, cure)


def some(names: Sequence[str], joint: str = ", ") -> str:
    """The first few, and how many more there are."""
    more = len(names) - _SHOWN
    return joint.join([*names[:_SHOWN], f"and {more} more"] if more > 0 else names)


def counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def size(n: float) -> str:
    """Bytes for people: 1.5 GiB."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n < _KIB:
            return f"{n:.0f} {unit}" if unit == "bytes" or n >= 10 else f"{n:.1f} {unit}"
        n /= _KIB
    return f"{n:,.1f} TiB"


def duration(seconds: float) -> str:
    """A time span for people, its two largest units: 3 h 10 min."""
    minutes, s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days:,} d {hours} h" if days < 30 else f"{days:,} d"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {s} s" if minutes else f"{s} s"
