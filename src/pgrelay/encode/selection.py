"""Which tables are relayed, and what happens to columns that must not be seen downstream.

Patterns are regular expressions that must match the whole of `schema.table` or `schema.table.column`. They
are evaluated once per relation. A column's values are treated while they are encoded, so that what is
dropped, masked or hashed never reaches Kafka, the log or an error.
"""

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from pgrelay.encode.encodings import STRING, Converter, Encoding
from pgrelay.encode.values.json_value import json_string
from pgrelay.errors import SetupError

KEEP: Final = "keep"
DROP: Final = "drop"
MASK: Final = "mask"
HASH: Final = "hash"

# What the schema topic calls the values of masked and hashed columns.
HIDDEN_ENCODING: Final = STRING


@dataclass(frozen=True, slots=True)
class Selection:
    """An empty `include` means every table. The first of drop, mask, hash that matches a column decides."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    mask: tuple[str, ...] = ()
    hash: tuple[str, ...] = ()
    mask_with: str = "***"
    hash_key: bytes = field(default=b"", repr=False)

    def is_relayed(self, table: str) -> bool:
        """Whether a table, as `schema.table`, is relayed."""
        included = not self.include or _any_matches(self.include, table)
        return included and not _any_matches(self.exclude, table)

    def treatment(self, table: str, column: str, key: bool) -> str:
        """What happens to a column. Raises SetupError if a key would no longer tell rows apart."""
        name = f"{table}.{column}"
        treatments = ((DROP, self.drop), (MASK, self.mask), (HASH, self.hash))
        chosen = next((treatment for treatment, patterns in treatments if _any_matches(patterns, name)), KEEP)
        if key and chosen in (DROP, MASK):
            raise SetupError(
                f"records.columns.{chosen}: {name} belongs to the key, without which rows can't be told "
                "apart; hash it instead, or leave it out of the patterns"
            )
        return chosen


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern of the configuration matches the whole of a name."""
    # A dot also matches a line break, so that no column can be named in a way that escapes being hidden.
    return re.fullmatch(pattern, name, re.DOTALL) is not None


def _any_matches(patterns: Iterable[str], name: str) -> bool:
    return any(matches(pattern, name) for pattern in patterns)


def hash_converter(encoding: Encoding, key: bytes) -> Converter:
    """A converter to the hexadecimal HMAC-SHA-256 of the value's JSON, whichever form the value came in."""

    def conversion(value: bytes) -> bytes:
        try:
            plain = encoding.encode(value)
        except ValueError:
            raise ValueError("its value is not shown, since the column is hashed") from None
        return b'"' + hmac.new(key, plain, "sha256").hexdigest().encode() + b'"'

    return conversion


def masked_json(text: str) -> bytes:
    """The JSON that replaces every value of a masked column."""
    return json_string(text.encode())
