"""What is said about a record that Kafka does not take, whether a broker says so or we know before."""

from typing import Final

from pgrelay.lsn import format_lsn

ALLOW_MORE: Final = "raise the topic's max.message.bytes, and message.max.bytes in sink.kafka"
KEYLESS: Final = "a compacted topic accepts no record without a key: change its cleanup.policy"
OTHERWISE: Final = "or take the table out of the publication"

# How many characters of a key are shown; no character has more than four bytes.
_KEY_SHOWN: Final = 200
_KEY_BYTES: Final = 4 * _KEY_SHOWN


def undeliverable(topic: str, commit_lsn: int, key: bytes | None) -> str:
    """A record that can't be delivered, in one line; `commit_lsn` is 0 and `key` None if not known."""
    of = f", of the transaction committed at {format_lsn(commit_lsn)}," if commit_lsn else ""
    return f"a record of topic {topic}{of}{_named(key)} can't be delivered"


def _named(key: bytes | None) -> str:
    if key is None:
        return ""
    # In one line whatever it holds: an Avro key is not text.
    text = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in key[:_KEY_BYTES].decode(errors="backslashreplace")
    )
    shown = text if len(key) <= _KEY_BYTES and len(text) <= _KEY_SHOWN else f"{text[:_KEY_SHOWN]}…"
    return f" with key {shown}"
