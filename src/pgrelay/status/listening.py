"""The address that `http.listen` gives, and the error if the server can't listen on it."""

import errno
import socket
from typing import Final

from pgrelay.errors import SetupError

CURE: Final = "choose another host:port, or null to turn it off"


def family(host: str, port: int) -> socket.AddressFamily:
    """The family of the address. Raises OSError if the host can't be resolved."""
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]


def not_had(host: str, port: int, error: OSError) -> SetupError:
    """The error if the server can't listen on the address."""
    stop = "stop the relay or program that listens there, " if error.errno == errno.EADDRINUSE else ""
    where = written(host, port)
    return SetupError(f"http.listen: can't listen on {where}: {error.strerror}; {stop}{CURE}")


def written(host: str, port: int) -> str:
    """The address as in the configuration: an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
