"""How much memory a relay takes."""

from pathlib import Path

from tests.integration.relays import Relay


def memory(relay: Relay) -> int:
    """Bytes of memory that it has now."""
    return _status(relay, "VmRSS")


def peak_memory(relay: Relay) -> int:
    """The most that it ever had."""
    return _status(relay, "VmHWM")


def _status(relay: Relay, field: str) -> int:
    for line in Path(f"/proc/{relay.pid}/status").read_text().splitlines():
        name, value = line.split(":", 1)
        if name == field:
            return int(value.split()[0]) * 1024
    raise AssertionError(f"no {field}: has the relay ended?")
