"""If the policy is to stop: what a topic that refused a batch would not take is named before it is sent."""

from dataclasses import replace
from typing import Final

import pytest

from pgrelay.assembly.events import Event
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.options import Limits
from pgrelay.encode.undeliverable import undeliverable
from pgrelay.errors import RecordError
from tests.encode.encoding import NOW, OPTIONS, encoder_of, segments, transaction
from tests.wire import build
from tests.wire.build import INT4, Column

OID: Final = 16384
WORDS: Final = build.relation(OID, "public", "words", "d", [Column("id", INT4, key=True), Column("word")])
LARGE: Final = build.insert(OID, ["2", "x" * 2_000])


def refusing(most_bytes: int = 1 << 62, keyed: bool = False) -> Encoder:
    """An encoder for whose topic `app.public.words` these limits are known."""
    return encoder_of(replace(OPTIONS, refusing={"app.public.words": Limits(most_bytes, keyed)}))


def keys(encoder: Encoder, events: list[Event]) -> list[bytes | None]:
    """The keys of the events' records."""
    return [key for segment in segments(encoder, events) for _, key, *_ in segment.records]


def test_a_record_that_is_too_large_is_named_after_all_transactions_before_it() -> None:
    encoder = refusing(2_000)
    small = transaction(WORDS, build.insert(OID, ["1", "a"]), commit_lsn=0x1800)
    events = [*small, *transaction(build.insert(OID, ["3", "a"]), LARGE, commit_lsn=0x2800)]
    ends = [segment.end_lsn for segment in segments(encoder, events)]
    assert [end for end in ends if end is not None] == [0x1808]
    with pytest.raises(RecordError) as caught:
        encoder.encode(NOW)
    whole = "a record of topic app.public.words, of the transaction committed at 0/2800, with key"
    assert str(caught.value).startswith(f'{whole} {{"id":2}} can\'t be delivered: it has ')
    assert "and the topic takes 2000; raise the topic's max.message.bytes" in str(caught.value)
    assert (caught.value.commit_lsn, caught.value.table) == (0x2800, "public.words")


def test_a_record_without_a_key_is_named() -> None:
    encoder = refusing(keyed=True)
    segments(encoder, transaction(WORDS, build.insert(OID, ["1", "a"])))
    encoder.feed(transaction(build.truncate([OID])))
    with pytest.raises(RecordError, match="a compacted topic accepts no record without a key"):
        encoder.encode(NOW)


def test_what_was_delivered_before_is_not_refused() -> None:
    """The topic took it, whatever it takes now."""
    encoder = refusing(2_000)
    encoder.skip(0, 0x1800, 1)
    assert keys(encoder, transaction(WORDS, LARGE, build.insert(OID, ["3", "a"]), commit_lsn=0x1800)) == [
        b'{"id":3}'
    ]


def test_other_topics_have_no_limits() -> None:
    encoder = encoder_of(replace(OPTIONS, refusing={"app.public.others": Limits(10)}))
    assert keys(encoder, transaction(WORDS, LARGE)) == [b'{"id":2}']


def test_what_is_not_known_is_left_out() -> None:
    assert undeliverable("t", 0, None) == "a record of topic t can't be delivered"
