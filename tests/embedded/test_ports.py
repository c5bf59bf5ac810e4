import socket

from pgrelay.embedded.ports import free_port, free_ports


def test_ports_differ_and_can_be_listened_on() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()


def test_no_port_can_be_taken_by_a_connecting_socket() -> None:
    assert free_port() < 32_768
