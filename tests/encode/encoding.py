"""Drives an encoder as the relay does, and reads its records as a consumer does."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pgrelay.assembly.events import Event, TransactionBegin, TransactionEnd, Watermark
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.needs import Announcement, FactsNeeded
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import RelationFacts
from pgrelay.encode.records import Record, Segment
from pgrelay.encode.topics import Topics
from tests.wire import build
from tests.wire.build import NOON

NOW: Final = NOON + 1_234_567
"""When the records are encoded: 1.234567 s after the commits."""

OPTIONS: Final = RecordOptions(version="0.1.0", prefix="app", database="shop", systemid="7301")
NO_FACTS: Final = RelationFacts()


def encoder_of(
    options: RecordOptions = OPTIONS,
    topic: str = "{prefix}.{schema}.{table}",
    routes: Sequence[tuple[str, str]] = (),
) -> Encoder:
    """`topic` is the template of table topics, `routes` as for `Topics`."""
    return Encoder(options, Topics(options.prefix, topic, routes))


def outcomes(
    encoder: Encoder, events: list[Event], facts: RelationFacts = NO_FACTS, now_us: int = NOW
) -> Iterator[Segment | Watermark | Announcement]:
    """The outcomes of the events, with every need met: each relation has the same `facts`."""
    encoder.feed(events)
    yield from encoder.encode(now_us)
    while encoder.need is not None:
        if isinstance(encoder.need, Announcement):
            yield encoder.need
        meet(encoder, facts)
        yield from encoder.encode(now_us)


def meet(encoder: Encoder, facts: RelationFacts = NO_FACTS) -> None:
    """Meet its need: a relation has these facts, and Kafka what is announced."""
    if isinstance(encoder.need, FactsNeeded):
        encoder.provide_facts(facts)
    else:
        encoder.confirm_topic()


def segments(
    encoder: Encoder, events: list[Event], facts: RelationFacts = NO_FACTS, now_us: int = NOW
) -> list[Segment]:
    return [it for it in outcomes(encoder, events, facts, now_us) if isinstance(it, Segment)]


def facts_asked(encoder: Encoder, events: list[Event]) -> list[str]:
    """The tables whose facts the encoder asks for."""
    asked: list[str] = []
    encoder.feed(events)
    encoder.encode(NOW)
    while encoder.need is not None:
        if isinstance(encoder.need, FactsNeeded):
            asked.append(str(encoder.need.relation))
        meet(encoder)
        encoder.encode(NOW)
    return asked


def transaction(
    *messages: bytes,
    xid: int | None = 754,
    commit_lsn: int = 0x1800,
    lsn: int = 0x1000,
    streamed: bool = False,
    scoped: bool = False,
    commit_us: int = NOON,
) -> list[Event]:
    """A transaction of these messages, which are 16 bytes of WAL apart, starting at `lsn`."""
    frames = [build.xlog_data(message, lsn + 16 * number) for number, message in enumerate(messages)]
    begin = TransactionBegin(xid, commit_lsn, commit_us, streamed, scoped)
    return [begin, *frames, TransactionEnd(commit_lsn + 8)]


@dataclass(frozen=True)
class Written:
    """A record as a consumer reads it: parsed JSON with the members in order."""

    topic: str
    key: Any
    value: Any
    headers: dict[str, bytes | None]
    partition: int


def written(record: Record) -> Written:
    topic, key, value, headers, partition = record
    values = {name: value.encode() if isinstance(value, str) else value for name, value in headers or []}
    return Written(topic, _parsed(key), _parsed(value), values, partition)


def _parsed(json_text: bytes | None) -> Any:
    """Strict: NaN is not JSON, and no member may come twice."""
    if json_text is None:
        return None
    return json.loads(json_text, parse_constant=_refuse, object_pairs_hook=_without_repeats)


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def _without_repeats(members: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(members)) == len(members), f"a member comes twice: {members}"
    return dict(members)


def records_of(
    events: list[Event], encoder: Encoder, facts: RelationFacts = NO_FACTS, now_us: int = NOW
) -> list[Written]:
    found = segments(encoder, events, facts, now_us)
    return [written(record) for segment in found for record in segment.records]


def records(
    *messages: bytes, options: RecordOptions = OPTIONS, facts: RelationFacts = NO_FACTS
) -> list[Written]:
    """The records of one transaction of these messages."""
    return records_of(transaction(*messages), encoder_of(options), facts)
