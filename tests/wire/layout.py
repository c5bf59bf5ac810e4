"""Messages as the manual lays them out: one field a line, its bytes, then what the manual calls it."""

import re

_FIELD = re.compile(r"\s*(?P<bytes>.+?)(?:\s{2,}.*)?")
_TOKEN = re.compile(r'"(?P<text>[^"]*)"|(?P<hex>[0-9A-F]{2})| ')


def layout(fields: str) -> bytes:
    """Bytes are in hex or as "text"; two spaces end them.

    >>> layout('''
    ...     49              Byte1('I')
    ...     00 00 40 00     Int32 (Oid)
    ...     "public" 00     String
    ... ''')
    b'I\\x00\\x00@\\x00public\\x00'
    """
    return b"".join(_field(line) for line in fields.splitlines() if line.strip())


def _field(line: str) -> bytes:
    match = _FIELD.fullmatch(line)
    assert match is not None, line
    tokens = list(_TOKEN.finditer(match["bytes"]))
    assert "".join(token[0] for token in tokens) == match["bytes"], f"not bytes: {line}"
    return b"".join(
        bytes.fromhex(token["hex"]) if token["hex"] else (token["text"] or "").encode() for token in tokens
    )
