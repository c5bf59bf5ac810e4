"""The error for a value that the server can't have written, if its settings are those we pin."""

from typing import Final

_SHOWN: Final = 60


def invalid_value(value: bytes, what: str) -> ValueError:
    """Says that a value is not `what`, and shows only how it begins: it may be a gigabyte, or private."""
    start = value if len(value) <= _SHOWN else value[:_SHOWN] + b"..."
    return ValueError(f"{start.decode(errors='backslashreplace')!r} is not {what}")
