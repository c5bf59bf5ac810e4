"""Postgres's text of network addresses and UUIDs in binary."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.encode.binary.addresses import inet_text, macaddr8_text, macaddr_text, uuid_text
from pgrelay.encode.encodings import Converter


def sent(address: str, bits: int, cidr: bool = False) -> bytes:
    parsed = ipaddress.ip_address(address)
    family = 2 if parsed.version == 4 else 3
    return bytes((family, bits, cidr, len(parsed.packed))) + parsed.packed


@pytest.mark.parametrize(
    ("address", "bits", "inet", "cidr"),
    [
        ("10.0.0.1", 32, b"10.0.0.1", b"10.0.0.1/32"),
        ("10.0.0.0", 8, b"10.0.0.0/8", b"10.0.0.0/8"),
        ("0.0.0.0", 0, b"0.0.0.0/0", b"0.0.0.0/0"),
        ("::", 0, b"::/0", b"::/0"),
        ("::1", 128, b"::1", b"::1/128"),
        ("2001:db8::", 32, b"2001:db8::/32", b"2001:db8::/32"),
    ],
)
def test_only_inet_omits_the_netmask_of_a_host(address: str, bits: int, inet: bytes, cidr: bytes) -> None:
    assert inet_text(sent(address, bits)) == inet
    assert inet_text(sent(address, bits, cidr=True)) == cidr


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("1:2:3:4:5:6:7:8", b"1:2:3:4:5:6:7:8"),
        ("1:0:0:2:0:0:0:3", b"1:0:0:2::3"),  # the longest run
        ("1:0:0:2:3:0:0:4", b"1::2:3:0:0:4"),  # the first of two
        ("1:0:2:0:3:0:4:0", b"1:0:2:0:3:0:4:0"),  # one zero is no run
        ("1::", b"1::"),
        ("::2", b"::2"),
        ("::1.2.3.4", b"::1.2.3.4"),
        ("::2:0", b"::0.2.0.0"),
        ("::ffff:1.2.3.4", b"::ffff:1.2.3.4"),
        ("::fffe:1.2.3.4", b"::fffe:102:304"),
        ("0:0:0:1::", b"0:0:0:1::"),
    ],
)
def test_ipv6_is_shortened_as_the_server_does(address: str, text: bytes) -> None:
    assert inet_text(sent(address, 128)) == text


@given(st.ip_addresses())
def test_addresses_read_back(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    text = inet_text(sent(str(address), address.max_prefixlen)).decode()
    assert ipaddress.ip_address(text) == address


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\2\x20\0",
        b"\2\x20\0\4\1\2\3",
        b"\2\x20\0\4\1\2\3\4\5",
        b"\2\x21\0\4\1\2\3\4",
        b"\3\x20\0\4\1\2\3\4",
        b"\4\x20\0\4\1\2\3\4",
        b"\3\x81\0\x10" + bytes(16),
    ],
)
def test_malformed_addresses_are_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"the value|an address of family"):
        inet_text(value)


def test_hardware_addresses_and_uuids() -> None:
    assert macaddr_text(bytes.fromhex("08002b010203")) == b"08:00:2b:01:02:03"
    assert macaddr8_text(bytes.fromhex("08002b0102030405")) == b"08:00:2b:01:02:03:04:05"
    digits = "a0eebc999c0b4ef8bb6d6bb9bd380a11"
    assert uuid_text(bytes.fromhex(digits)) == b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"


@pytest.mark.parametrize("text", [macaddr_text, macaddr8_text, uuid_text])
@pytest.mark.parametrize("size", [0, 5, 7, 9, 15, 17])
def test_truncated_and_oversized_values_are_refused(text: Converter, size: int) -> None:
    with pytest.raises(ValueError, match="where its binary form has"):
        text(bytes(size))
