"""Events through an encoder, as the relay drives it, and its records as a reader has them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pgrelay.encode.encoder import Encoder, Record, Segment
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import RelationFacts
from pgrelay.encode.topics import Topics
from pgrelay.events import Event, Reached, TransactionBegin, TransactionEnd
from tests.wire import build
from tests.wire.build import NOON

NOW: Final = NOON + 1_234_567
"""When the records are encoded: 1.234567 s after the commits."""

OPTIONS: Final = RecordOptions(version="0.1.0", prefix="app", database="shop")
NOTHING_ELSE: Final = RelationFacts()


def encoder_of(options: RecordOptions = OPTIONS) -> Encoder:
    return Encoder(options, Topics(options.prefix, options.topic))


def outcomes(
    encoder: Encoder, events: list[Event], facts: RelationFacts = NOTHING_ELSE, now_us: int = NOW
) -> Iterator[Segment | Reached]:
    """What comes of the events, every relation having the same `facts`, and topics existing when wanted."""
    encoder.feed(events)
    yield from encoder.encode(now_us)
    while encoder.wanted is not None or encoder.wants_message_topic:
        if encoder.wanted is not None:
            encoder.learn(facts)
        else:
            encoder.allow_messages()
        yield from encoder.encode(now_us)


def segments(
    encoder: Encoder, events: list[Event], facts: RelationFacts = NOTHING_ELSE, now_us: int = NOW
) -> Iterator[Segment]:
    return (it for it in outcomes(encoder, events, facts, now_us) if isinstance(it, Segment))


def transaction(
    *messages: bytes,
    xid: int | None = 754,
    commit_lsn: int = 0x1800,
    lsn: int = 0x1000,
    streamed: bool = False,
    scoped: bool = False,
    commit_us: int = NOON,
) -> list[Event]:
    """A transaction of these messages, 16 bytes of WAL apart from `lsn` on."""
    frames = [build.xlog_data(message, lsn + 16 * number) for number, message in enumerate(messages)]
    begin = TransactionBegin(xid, commit_lsn, commit_us, streamed, scoped)
    return [begin, *frames, TransactionEnd(commit_lsn + 8)]


@dataclass(frozen=True)
class Written:
    """A record as a consumer reads it: JSON parsed, members in their order."""

    topic: str
    key: Any
    value: Any
    headers: dict[str, Any] | None
    partition: int


def written(record: Record) -> Written:
    topic, key, value, headers, partition = record
    return Written(
        topic,
        None if key is None else json.loads(key),
        None if value is None else json.loads(value),
        None if headers is None else {name: json.loads(text) for name, text in headers if text is not None},
        partition,
    )


def records(
    *messages: bytes, options: RecordOptions = OPTIONS, facts: RelationFacts = NOTHING_ELSE
) -> list[Written]:
    """The records of one transaction of these messages."""
    return records_of(transaction(*messages), encoder_of(options), facts)


def records_of(events: list[Event], encoder: Encoder, facts: RelationFacts = NOTHING_ELSE) -> list[Written]:
    return [written(record) for segment in segments(encoder, events, facts) for record in segment.records]
