"""The encoder's output: records, and segments of them, one after the other in commit order."""

from typing import Final

from pgrelay.assembly.events import TransactionBegin

# Kafka's client takes a header's value as str, bytes or None; ours are never str.
Headers = list[tuple[str, str | bytes | None]]

# Names of the columns whose large values did not change and so were not sent; None if a record has no row.
Unchanged = list[bytes] | None

# Where a record goes: the partition its key hashes to, or every partition of the topic.
BY_KEY: Final = -1
EVERY_PARTITION: Final = -2

# Topic, key, value (None: a tombstone), headers, partition.
Record = tuple[str, bytes | None, bytes | None, Headers | None, int]

CREATE: Final = "c"
UPDATE: Final = "u"
DELETE: Final = "d"
TRUNCATE: Final = "t"
MESSAGE: Final = "m"

# Stands for a large value that did not change, if `records.unchanged` is placeholder; Debezium's own.
PLACEHOLDER: Final = "__debezium_unavailable_value"

# What may stand next to a row's columns in the flat envelope.
FLAT_NAMES: Final = frozenset(
    ("__op", "__deleted", "__commit_lsn", "__seq", "__ts_ms", "__unchanged", "__truncate")
)

# What librdkafka counts for a record besides its key, value and headers, however little it is on the wire:
# RD_KAFKAP_MESSAGE_V2_MAX_OVERHEAD, the most that the fields of Kafka's record format 2 can take.
_OVERHEAD: Final = 36


def record_size(key: bytes | None, value: bytes, headers: Headers | None) -> int:
    """The bytes of a record as librdkafka counts them against message.max.bytes."""
    size = _OVERHEAD + len(value)
    if key is not None:
        size += len(key)
    if headers is not None:
        for name, content in headers:
            for part in (len(name), 0 if content is None else len(content)):
                size += part + _size_of_length(part)
    return size


def _size_of_length(length: int) -> int:
    """The bytes of a length as Kafka writes it: zig-zag, so the first byte has six bits of it, not seven."""
    size = 1
    length >>= 6
    while length:
        size += 1
        length >>= 7
    return size


class SchemaHeader:
    """What precedes each key and each value: in Avro, the id of its schema; in JSON, nothing."""

    def __init__(self) -> None:
        self.key: bytes = b""
        self.value: bytes = b""


class Segment:
    """Records of one transaction.

    `begin` is None if it continues the segment before, `end_lsn` is None if the next one continues it.
    `has_truncate`: one of its records is for every partition.
    """

    def __init__(self, begin: TransactionBegin | None) -> None:
        self.begin = begin
        self.records: list[Record] = []
        self.end_lsn: int | None = None
        self.has_truncate = False
