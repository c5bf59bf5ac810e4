"""Free TCP ports for servers that must come back on the same port after a restart."""

import random
import socket

# Below the range from which Linux and macOS hand out ports to connecting sockets. A port inside that range
# can be taken while its server is down, even by a client that retries this very port and connects to itself.
_RANGE = range(15_000, 32_000)


def free_port() -> int:
    """A port on 127.0.0.1 that nothing listens on now. Raises OSError if none is found."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """`count` different free ports. Raises OSError if too few of 200 tried ports are free."""
    found: list[int] = []
    for port in random.sample(_RANGE, 200):
        if len(found) == count:
            return found
        if _is_free(port):
            found.append(port)
    raise OSError(f"no {count} free ports on 127.0.0.1 between {_RANGE.start} and {_RANGE.stop - 1}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
