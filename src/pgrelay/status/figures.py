"""Figures as people read them: three digits and a unit. The page's script writes them the same way."""

from typing import Final

_BYTES: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400


def size(n: int) -> str:
    """Bytes, in powers of ten: `12.4 kB`."""
    value, unit = float(n), 0
    while value >= 1000 and unit < len(_BYTES) - 1:
        value, unit = value / 1000, unit + 1
    return f"{_three(value) if unit else n} {_BYTES[unit]}"


def duration(s: float) -> str:
    """Seconds: `1.80 ms`, `12.0 s`, `5 min 17 s`, `3 h 2 min`, `54 d 17 h`."""
    if s == 0:
        return "0 s"
    if s < 1:
        return f"{_three(s * 1000)} ms"
    if s < _MINUTE_S:
        return f"{_three(s)} s"
    whole = int(s)
    if s < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    if s < _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
    return f"{whole // _DAY_S} d {whole % _DAY_S // _HOUR_S} h"


def age(s: float) -> str:
    """Whole seconds, or as `duration` has them: `17 s`, `5 min 17 s`."""
    return f"{int(s)} s" if s < _MINUTE_S else duration(s)


def ago(s: float) -> str:
    """`just now`, `17 s ago`."""
    return "just now" if s < 1 else f"{age(s)} ago"


def count(n: float) -> str:
    """`0`, `3.3`, `4,039`."""
    return f"{n:.1f}".removesuffix(".0") if 0 < n < 10 else f"{n:,.0f}"


def counted(n: int, noun: str) -> str:
    """`1 record`, `4,039 records`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _three(value: float) -> str:
    """Three digits at least, of a value between 0 and 1000."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
