"""Whether the key of hashed columns is short enough to be found by brute force."""

from typing import Final

from pgrelay.check.findings import Finding, warning
from pgrelay.config import Records
from pgrelay.figures import counted

_STRONG_BYTES: Final = 16


def hash_key_findings(records: Records) -> list[Finding]:
    length = len((records.columns.hash_key or "").encode())
    if not records.columns.hash or length >= _STRONG_BYTES:
        return []
    return [
        warning(
            f"records.columns.hash_key has {counted(length, 'byte')}",
            "whoever knows one value and its hash can find a short key by trying, and with it other values",
            f"use {_STRONG_BYTES} random bytes or more: openssl rand -hex 32; every hash becomes another",
        )
    ]
