"""How much memory a relay uses."""

from pathlib import Path

from tests.integration.relays import Relay


def memory(relay: Relay) -> int:
    """Its current memory, in bytes."""
    return _status(relay, "VmRSS")


def peak_memory(relay: Relay) -> int:
    """Its peak memory, in bytes."""
    return _status(relay, "VmHWM")


def _status(relay: Relay, field: str) -> int:
    for line in Path(f"/proc/{relay.pid}/status").read_text().splitlines():
        name, value = line.split(":", 1)
        if name == field:
            return int(value.split()[0]) * 1024
    raise AssertionError(f"no {field}: has the relay ended?")
