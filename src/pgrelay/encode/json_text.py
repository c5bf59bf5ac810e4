"""JSON of names and lists, for what surrounds the rows. For values of columns see values/json_value.py."""

import json


def json_name(name: str) -> bytes:
    """A JSON string. Identifiers that are not UTF-8 (SQL_ASCII) keep their bytes as escaped surrogates."""
    try:
        return json.dumps(name, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(name).encode()


def json_array(items: list[bytes]) -> bytes:
    """An array of items that are JSON already."""
    return b"[" + b",".join(items) + b"]"
