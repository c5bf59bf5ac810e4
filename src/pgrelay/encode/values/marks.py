"""What is written around and between the parts of an array or of hstore."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Marks:
    """`opening` comes before the first part and `between` before each further one. `empty` stands for no
    parts at all, `null` for a part that is null; `present`, of one byte or none, precedes one that is not.
    `colon` comes between a name and its value.
    """

    empty: bytes
    opening: bytes
    between: bytes
    closing: bytes
    null: bytes
    present: bytes = b""
    colon: bytes = b""


JSON_ARRAY: Final = Marks(b"[]", b"[", b",", b"]", b"null")
JSON_OBJECT: Final = Marks(b"{}", b"{", b",", b"}", b"null", colon=b":")
