"""Free TCP ports for servers that must come back on the same port after a restart."""

import random
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

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


@contextmanager
def reserved_ports(count: int) -> Iterator[list[int]]:
    """Free ports that stay ours for the block: no other call finds them free, though nothing listens there.

    Each has a socket bound to it that does not listen, so connections are refused. On Linux a server can
    listen there all the same if it sets SO_REUSEADDR, as they do; elsewhere it could not, so nothing is held.
    """
    with ExitStack() as stack:
        ports = free_ports(count)
        for port in ports if sys.platform == "linux" else ():
            holder = stack.enter_context(socket.socket())
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("127.0.0.1", port))
        yield ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
