"""Formats numbers for people: about three digits and a unit, as the status page's script does, too."""

from typing import Final

_BYTES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_KIB: Final = 1024
# From here on, rounding would give 1024 of the smaller unit.
_NEXT_UNIT: Final = 1023.5
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400


def size(n: float) -> str:
    """Bytes, in powers of two: `12.4 KiB`."""
    unit = 0
    while n >= _NEXT_UNIT and unit < len(_BYTES) - 1:
        n, unit = n / _KIB, unit + 1
    return f"{_three(n) if unit else f'{n:.0f}'} {_BYTES[unit]}"


def duration(s: float) -> str:
    """Seconds: `1.80 ms`, `12.0 s`, `5 min 17 s`, `3 h 2 min`, `54 d 17 h`."""
    if s == 0:
        return "0 s"
    if s < 1:
        return f"{_three(s * 1000)} ms"
    whole = round(s)
    if whole < _MINUTE_S:
        return f"{_three(s)} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
    return f"{whole // _DAY_S:,} d {whole % _DAY_S // _HOUR_S} h"


def age(s: float) -> str:
    """Whole seconds below a minute, else like `duration`: `17 s`, `5 min 17 s`."""
    return f"{int(s)} s" if s < _MINUTE_S else duration(s)


def ago(s: float) -> str:
    """`just now`, `17 s ago`."""
    return "just now" if s < 1 else f"{age(s)} ago"


def count(n: float) -> str:
    """`0`, `3.3`, `4,039`."""
    return f"{n:.1f}".removesuffix(".0") if 0 < n < 10 else f"{n:,.0f}"


def counted(n: int, noun: str) -> str:
    """`1 table`, `1,600 tables`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _three(value: float) -> str:
    """At least three digits; `value` is not negative."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
