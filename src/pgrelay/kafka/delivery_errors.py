"""The errors for records that Kafka refuses for good, or may lack."""

import re
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError

from pgrelay.errors import KafkaUnavailable, PgrelayError, RecordRefused, SetupError
from pgrelay.kafka.errors import UNAUTHORIZED, denied_error, is_denied
from pgrelay.lsn import format_lsn
from pgrelay.printable import printable

_ALLOW_MORE: Final = (
    "raise the topic's max.message.bytes, and message.max.bytes in sink.kafka; or, if a batch of small "
    "records is too large, lower batch.size there"
)
# Errors that no retry cures, and their cures.
POISON: Final[Mapping[int, str]] = {
    KafkaError.MSG_SIZE_TOO_LARGE: _ALLOW_MORE,
    KafkaError.INVALID_MSG_SIZE: _ALLOW_MORE,
    KafkaError.RECORD_LIST_TOO_LARGE: _ALLOW_MORE,
    KafkaError.INVALID_RECORD: "a compacted topic accepts no record without a key: change its cleanup.policy",
    KafkaError.INVALID_MSG: "look into the broker's log",
    KafkaError.POLICY_VIOLATION: "look into the broker's log",
}

# What librdkafka says about records that it drops, once the producer or its transaction has failed.
PURGED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
# What a broker's checks of single records yield, whichever failed; the second for the rest of the batch.
_CHECKED: Final = frozenset({KafkaError.INVALID_RECORD, KafkaError._INVALID_DIFFERENT_RECORD})
_FAILED_CHECKS: Final = (
    "not for want of a key; correct our clock or the broker's, if they differ by more than the topic's "
    "message.timestamp.before.max.ms or message.timestamp.after.max.ms; or see what the broker validates"
)

# How not to send such records at all: the last resort. It differs for topics of records that are not rows,
# but a table may have such a name, too.
_NO_TABLE: Final = "take the table out of the publication"
_LEFT_OUT: Final[Mapping[str, str]] = {
    ".message": f"set source.messages: false if it is a logical message, and else {_NO_TABLE}",
    ".transaction": "set records.transaction_topic: false if it is the end of a transaction, and else "
    f"{_NO_TABLE}",
    ".offsets": f"{_NO_TABLE}, if this is a table's topic",
    ".schema": f"{_NO_TABLE}, if this is a table's topic",
}

# How many characters of a key are shown; no character has more than four bytes.
_KEY_SHOWN: Final = 200
_KEY_BYTES: Final = 4 * _KEY_SHOWN

# What librdkafka says about a topic that it knew, once brokers have not known it for a while. The last is for
# records that were still in a partition's queue when it dropped the partition.
GONE: Final = frozenset(
    {
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._DESTROY,
    }
)
# The cure of that.
GONE_CURE: Final = (
    "it is re-created if sink.create_topics is true; if it was deleted, its earlier records are lost: copy "
    "its tables again"
)

# What it means if the broker lacks earlier records. It reports that once, so the message must say everything.
_DESYNCHRONIZED: Final = (
    "the topic may have lost acknowledged records, for example by an unclean leader election; copy its "
    "tables again"
)
# What it means if a request was given up just before: librdkafka names the partition's last error, and when
# that was.
_GIVEN_UP: Final = re.compile(r"last partition error _TIMED_OUT \([^()]*?(\d+)ms ago\)")
_JUST_BEFORE_MS: Final = 120_000
_TOO_SLOW: Final = (
    "Kafka was too slow, or throttles us by a quota, so that a request was given up and sent again; raise "
    "socket.timeout.ms in sink.kafka, or the quota"
)


def desync_meaning(error: KafkaError) -> str | None:
    """The meaning of an error if it says that a broker lacks records before the next one; else None."""
    text = error.str()
    if error.code() != KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER and "sequence desynchronization" not in text:
        return None
    given_up = _GIVEN_UP.search(text)
    return _TOO_SLOW if given_up is not None and int(given_up[1]) <= _JUST_BEFORE_MS else _DESYNCHRONIZED


def delivery_error(error: KafkaError, topic: str, commit_lsn: int, key: bytes | None = None) -> PgrelayError:
    """The error for a record that was refused for good.

    `commit_lsn` is 0, and `key` None, if it is not known which record of a batch is to blame.
    """
    code = error.code()
    if code in POISON:
        return _record_refused(topic, commit_lsn, key, f"{error.str()}; {POISON[code]}")
    if code in UNAUTHORIZED:
        return SetupError(
            f"Kafka refuses writes to topic {topic}: {error.str()}; grant WRITE and DESCRIBE on it"
        )
    if is_denied(error):
        return denied_error(error.str())
    if code in GONE:
        return KafkaUnavailable(f"topic {topic} is gone ({error.str()}): {GONE_CURE}")
    if (meaning := desync_meaning(error)) is not None:
        return KafkaUnavailable(f"topic {topic}: {error.str()}: {meaning}")
    if code == KafkaError.INVALID_TIMESTAMP:
        return KafkaUnavailable(
            f"topic {topic}: {error.str()}: our clock differs from the broker's by more than the topic's "
            "message.timestamp.before.max.ms or message.timestamp.after.max.ms; correct the wrong clock"
        )
    return KafkaUnavailable(f"topic {topic}: {error.str()}")


def passed_over_error(topic: str) -> KafkaUnavailable:
    """The error for a record that a partition may lack, although it took a later one."""
    return KafkaUnavailable(
        f"topic {topic}: Kafka has taken later records, but may lack earlier ones, as after a change of "
        "leader; what is not confirmed is sent again"
    )


def oversized_error(topic: str, commit_lsn: int, key: bytes | None, size: int, limit: int) -> RecordRefused:
    """The error for a record of `size` bytes, over the producer's own limit."""
    why = f"it has {size} bytes, and message.max.bytes in sink.kafka is {limit}"
    return _record_refused(topic, commit_lsn, key, f"{why}; raise that, and the topic's max.message.bytes")


def _record_refused(topic: str, commit_lsn: int, key: bytes | None, why: str) -> RecordRefused:
    """`why` ends with a cure; `commit_lsn` is 0 and `key` None if not known."""
    of = f", of the transaction committed at {format_lsn(commit_lsn)}," if commit_lsn else ""
    record = f"a record of topic {topic}{of}{_named(key)}"
    return RecordRefused(f"{record} can't be delivered: {why}; {_exclusion_cure(topic)}", topic, commit_lsn)


def _named(key: bytes | None) -> str:
    if key is None:
        return ""
    # On one line whatever it contains: an Avro key is not text.
    text = printable(key[:_KEY_BYTES].decode(errors="backslashreplace"))
    shown = text if len(key) <= _KEY_BYTES and len(text) <= _KEY_SHOWN else f"{text[:_KEY_SHOWN]}…"
    return f" with key {shown}"


def batch_error(
    error: KafkaError, topic: str, commit_lsn: int, key: bytes | None = None, *, keyless: bool
) -> PgrelayError:
    """The error for a batch that a broker refused; `key` is that of its only record.

    `keyless`: the record that is to blame has no key.
    """
    if error.code() in _CHECKED and not keyless:
        failure: PgrelayError = failed_checks_error(topic, commit_lsn, key, error)
    else:
        failure = delivery_error(error, topic, commit_lsn, key)
    if isinstance(failure, RecordRefused):
        failure.by_broker, failure.keyless = True, keyless
    return failure


def failed_checks_error(
    topic: str, commit_lsn: int, key: bytes | None = None, error: KafkaError | None = None
) -> RecordRefused:
    """The error for a record that a broker's checks refuse, though not for want of a key."""
    said = "" if error is None else f"{error.str()}: "
    return _record_refused(topic, commit_lsn, key, f"{said}{_FAILED_CHECKS}")


def _exclusion_cure(topic: str) -> str:
    how = next((how for ending, how in _LEFT_OUT.items() if topic.endswith(ending)), _NO_TABLE)
    return f"or {how}"
