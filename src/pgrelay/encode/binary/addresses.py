"""Postgres's text for network addresses and UUIDs that come in binary."""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from pgrelay.encode.binary.fields import read_bytes, require_size

# Families as ``src/include/utils/inet.h`` numbers them: IPv6 is the server's AF_INET + 1.
_IPV4: Final = 2
_IPV6: Final = 3

_HEX: Final = b"0123456789abcdef"
_DASH: Final[u8] = ord("-")


def inet_text(value: bytes) -> bytes:
    """inet and cidr: one byte each for family, netmask bits, 1 for cidr, address size; then the address.

    inet leaves out the netmask of a single host, cidr never does.
    """
    family, bits, cidr, size = read_bytes(value, 0, 4)
    address = read_bytes(require_size(value, 4 + size), 4, size)
    if family == _IPV4 and size == 4 and bits <= 32:
        text = _ipv4(address)
    elif family == _IPV6 and size == 16 and bits <= 128:
        text = _ipv6(address)
    else:
        raise ValueError(f"an address of family {family} has {size} bytes and {bits} bits of netmask")
    return text if bits == 8 * size and not cidr else b"%b/%d" % (text, bits)


def macaddr_text(value: bytes) -> bytes:
    """``08:00:2b:01:02:03``."""
    return require_size(value, 6).hex(":").encode()


def macaddr8_text(value: bytes) -> bytes:
    """``08:00:2b:01:02:03:04:05``."""
    return require_size(value, 8).hex(":").encode()


def uuid_text(value: bytes) -> bytes:
    """``a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11``."""
    require_size(value, 16)
    writer = BytesWriter()
    for index in range(16):
        if index == 4 or index == 6 or index == 8 or index == 10:
            writer.append(_DASH)
        byte: i64 = value[index]
        writer.append(u8(_HEX[byte >> 4]))
        writer.append(u8(_HEX[byte & 15]))
    return writer.getvalue()


def _ipv4(address: bytes) -> bytes:
    return b"%d.%d.%d.%d" % (address[0], address[1], address[2], address[3])


def _ipv6(address: bytes) -> bytes:
    """Like ``src/port/inet_net_ntop.c``: the first longest run of zero words, if two or more, is left out.

    If that run is in front and leaves two words, or ffff and two words, the two are a dotted IPv4 address.
    """
    words = [address[i] << 8 | address[i + 1] for i in range(0, 16, 2)]
    start, length = _longest_zeros(words)
    if start == 0 and (length == 6 or (length == 5 and words[5] == 0xFFFF)):
        return (b"::" if length == 6 else b"::ffff:") + _ipv4(address[12:])
    if length < 2:
        return _words(words)
    return _words(words[:start]) + b"::" + _words(words[start + length :])


def _longest_zeros(words: list[int]) -> tuple[int, int]:
    """Where the first longest run of zero words starts, and its length; 0 if there is none."""
    best_start = best_length = length = 0
    for index, word in enumerate(words):
        length = length + 1 if word == 0 else 0
        if length > best_length:
            best_start, best_length = index - length + 1, length
    return best_start, best_length


def _words(words: list[int]) -> bytes:
    return b":".join([b"%x" % word for word in words])
