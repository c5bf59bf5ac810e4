import socket

from pgrelay.embedded.ports import free_port, free_ports


def test_free_ports_differ_and_can_be_listened_on() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()


def test_free_ports_are_below_the_ephemeral_range() -> None:
    assert free_port() < 32_768
