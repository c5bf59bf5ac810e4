"""Where a server of ours listens, by `http.listen`, and what it is told where it can't."""

import socket
from typing import Final

from pgrelay.errors import SetupError

CURE: Final = "choose another host:port, or null"


def family(host: str, port: int) -> socket.AddressFamily:
    """That of the address. Raises OSError where the host is not known."""
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]


def not_had(host: str, port: int, error: OSError) -> SetupError:
    """The error where the address can't be had."""
    return SetupError(f"http.listen: can't listen on {host}:{port}: {error.strerror}; {CURE}")
