"""Addresses that a server listens on, and the error if it can't."""

import errno
import socket
from typing import Final

from pgrelay.errors import SetupError

CURE: Final = "choose another host:port, or null to turn it off"


def address_family(host: str, port: int) -> socket.AddressFamily:
    """The family of the address. Raises OSError if the host can't be resolved."""
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]


def listen_error(host: str, port: int, error: OSError) -> SetupError:
    """The error if the server can't listen on the address."""
    stop = "stop the relay or program that listens there, " if error.errno == errno.EADDRINUSE else ""
    where = format_address(host, port)
    return SetupError(f"http.listen: can't listen on {where}: {error.strerror}; {stop}{CURE}")


def format_address(host: str, port: int) -> str:
    """host:port as in the configuration: an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
