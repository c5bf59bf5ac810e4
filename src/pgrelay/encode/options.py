"""The operator's choices about records, in the form that the pure rooms use."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pgrelay.encode.encodings import Encodings
from pgrelay.encode.selection import Selection


@dataclass(frozen=True, slots=True)
class Limits:
    """What a topic accepts: records up to `max_bytes` by `record_size`; if `key_required`, only with a key.

    `set_by_producer`: the limit of bytes is the producer's.
    """

    max_bytes: int = 1 << 60  # no limit; compiled, a larger number would be an object
    key_required: bool = False
    set_by_producer: bool = False

    def refusal(self, topic: str, keyed: bool, size: int) -> str:
        """Why the topic does not accept a record of `size` bytes, `keyed` or not; empty if it does."""
        if size > self.max_bytes:
            limit = "message.max.bytes in sink.kafka is" if self.set_by_producer else f"topic {topic} takes"
            return f"the record has {size} bytes, and {limit} {self.max_bytes}"
        if self.key_required and not keyed:
            return f"topic {topic} is compacted, and the record has no key"
        return ""


@dataclass(frozen=True, slots=True)
class DeadLetterOptions:
    """`by_topic` has the limits of topics that have refused a record, `default` those of all others."""

    default: Limits = field(default_factory=Limits)
    by_topic: Mapping[str, Limits] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """`prefix` is source.name, `version` our own.

    `binary_values`: the server was asked for values in binary.
    `dead_letters`: None if a change that can't become a record is an error.
    """

    version: str
    prefix: str
    database: str
    systemid: str = ""
    format: Literal["json", "avro"] = "json"
    envelope: Literal["debezium", "flat"] = "debezium"
    key: bool = True
    tombstones: bool = True
    transactions: bool = False
    placeholder: bool = False
    headers: bool = False
    binary_values: bool = False
    encodings: Encodings = field(default_factory=Encodings)
    selection: Selection = field(default_factory=Selection)
    dead_letters: DeadLetterOptions | None = None

    def limits(self, topic: str) -> Limits:
        """The limits past which a record of the topic becomes a dead letter."""
        if self.dead_letters is None:
            return Limits()
        return self.dead_letters.by_topic.get(topic, self.dead_letters.default)
