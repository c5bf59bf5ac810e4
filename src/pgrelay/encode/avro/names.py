"""Names that Avro accepts, for identifiers that may be anything.

Avro allows [A-Za-z_][A-Za-z0-9_]* (specification, "Names"). A plain name stays as it is. A leading digit, and
any run of other characters, becomes `_x`, its UTF-8 bytes in hexadecimal, `_`: column `a b` is field
`a_x20_b`. `_x` before two hexadecimal digits is escaped itself, so that no name can be taken for another's
escape: `a_x20_b` is `a_x5f78_20_b`. So a name can be read back.
"""

import re
from typing import Final

_ESCAPED: Final = re.compile(r"^[0-9]|[^A-Za-z0-9_]+|_x(?=[0-9a-f]{2})")


def avro_name(identifier: str) -> str:
    """An identifier as one part of a name; two identifiers never give the same."""
    return _ESCAPED.sub(_hexadecimal, identifier)


def avro_namespace(name: str) -> str:
    """A name of several parts, such as a topic's; its dots stay."""
    return ".".join(avro_name(part) if part else "_x2e_" for part in name.split("."))


def utf8_safe(identifier: str) -> str:
    """The identifier as valid UTF-8: bytes that are not UTF-8 (SQL_ASCII) become `\\xff`."""
    return identifier.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _hexadecimal(match: re.Match[str]) -> str:
    return f"_x{match[0].encode('utf-8', 'surrogateescape').hex()}_"
