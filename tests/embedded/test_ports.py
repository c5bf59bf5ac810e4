import socket
import sys

import pytest

from pgrelay.embedded.ports import free_port, free_ports, reserved_ports


def test_free_ports_differ_and_can_be_listened_on() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()


def test_free_ports_are_below_the_ephemeral_range() -> None:
    assert free_port() < 32_768


@pytest.mark.skipif(sys.platform != "linux", reason="nothing is held elsewhere")
def test_a_held_port_is_free_for_nobody_else_even_while_its_server_is_down() -> None:
    with reserved_ports(1) as [port]:
        for _ in range(2):
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", port))
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port))
            with socket.create_server(("127.0.0.1", port)):
                socket.create_connection(("127.0.0.1", port)).close()
    socket.create_server(("127.0.0.1", port)).close()
