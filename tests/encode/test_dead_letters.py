"""A change that can't be a record becomes a dead letter, which names the change and takes its place."""

import json
from dataclasses import replace
from typing import Any, Final

import pytest

from pgrelay.assembly.events import Event
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.encodings import Encodings
from pgrelay.encode.options import DeadLetterOptions, Limits, RecordOptions
from pgrelay.encode.records import Record, record_size
from pgrelay.encode.selection import Selection
from pgrelay.errors import RecordError
from tests.encode.encoding import OPTIONS, encoder_of, segments, transaction
from tests.wire import build
from tests.wire.build import INT4, UNCHANGED, Column

SETTING_ASIDE: Final = replace(
    OPTIONS, encodings=Encodings(validate_utf8=True), dead_letters=DeadLetterOptions(), headers=True
)
OID: Final = 16384
COLUMNS: Final = [Column("id", INT4, key=True), Column("word"), Column("note")]
WORDS: Final = build.relation(OID, "public", "words", "d", COLUMNS)
KEYED_BY_WORD: Final = build.relation(
    OID, "public", "words", "i", [Column("id", INT4, key=True), Column("word", key=True), Column("note")]
)
LATIN: Final = b"K\xf6ln"
"""No UTF-8, as a server whose encoding is SQL_ASCII may send it."""


def records(encoder: Encoder, events: list[Event]) -> list[Record]:
    return [record for segment in segments(encoder, events) for record in segment.records]


def relayed(*messages: bytes, options: RecordOptions = SETTING_ASIDE, **more: Any) -> list[Record]:
    return records(encoder_of(options), transaction(WORDS, *messages, **more))


def headers_of(record: Record) -> dict[str, Any]:
    return dict(record[3] or [])


def limited(max_bytes: int = 1 << 62, keyed: bool = False, **more: Any) -> RecordOptions:
    """The limits of `app.public.words`."""
    limits = DeadLetterOptions(by_topic={"app.public.words": Limits(max_bytes, keyed)})
    return replace(SETTING_ASIDE, dead_letters=limits, **more)


def test_a_value_that_can_not_be_encoded_is_a_raw_letter_with_its_key() -> None:
    (letter,) = relayed(build.insert(OID, ["1", LATIN, "n"]), lsn=0x16B374D848)
    topic, key, value, _, partition = letter
    assert (topic, partition) == ("app.dead_letter", 0)
    assert json.loads(key or b"") == {"id": 1}
    assert value == LATIN


def test_a_letters_headers_name_the_change_and_the_error() -> None:
    _, letter = relayed(build.insert(OID, ["1", "a", None]), build.insert(OID, ["2", LATIN, None]))
    headers = headers_of(letter)
    assert headers.pop("error").startswith(b"public.words.word: a value of type text can't be encoded: ")
    assert json.loads(headers.pop("row")) == {"id": "2", "word": "K\\xf6ln", "note": None}
    assert headers == {
        "lsn": b"0/1020",
        "table": b"public.words",
        "column": b"word",
        "op": b"c",
        "commit_lsn": b"6144",
        "seq": b"1",
        "txid": b"754",
    }


@pytest.mark.parametrize(
    ("messages", "op"),
    [
        ([build.update(OID, ["1", LATIN, "n"])], b"u"),
        ([build.update(OID, ["1", LATIN, "n"], key=["2", None, None])], b"u"),
        ([KEYED_BY_WORD, build.delete(OID, key=["1", LATIN, None])], b"d"),
    ],
)
def test_inserts_updates_and_deletes_can_be_letters(messages: list[bytes], op: bytes) -> None:
    (letter,) = relayed(*messages)
    assert letter[2] == LATIN
    assert headers_of(letter)["op"] == op


def test_a_change_of_a_streamed_transaction_can_be_a_letter() -> None:
    relation = build.relation(OID, "public", "words", "d", COLUMNS, xid=755)
    insert = build.insert(OID, ["1", LATIN, "n"], xid=755)
    (letter,) = records(encoder_of(SETTING_ASIDE), transaction(relation, insert, streamed=True))
    assert json.loads(headers_of(letter)["row"])["note"] == "n"


def test_a_letter_whose_key_can_not_be_encoded_has_none() -> None:
    (letter,) = relayed(build.update(OID, [UNCHANGED, "a", "b"]))
    assert letter[1] is None
    assert headers_of(letter)["column"] == b"id"


def test_the_rows_around_a_letter_are_relayed_with_their_own_seq() -> None:
    before, letter, after = relayed(
        *[build.insert(OID, [number, text, None]) for number, text in (("1", "a"), ("2", LATIN), ("3", "b"))]
    )
    assert [headers_of(record)["seq"] for record in (before, letter, after)] == [b"0", b"1", b"2"]
    assert [before[0], after[0]] == ["app.public.words"] * 2


def test_a_delivered_letter_is_not_repeated() -> None:
    events = transaction(WORDS, *[build.insert(OID, [str(number), LATIN, None]) for number in range(3)])
    encoder = encoder_of(SETTING_ASIDE)
    encoder.skip_delivered(0, 0x1800, 2)
    assert (
        records(encoder, events)
        == relayed(*[build.insert(OID, [str(number), LATIN, None]) for number in range(3)])[2:]
    )


def test_without_dead_letters_it_is_an_error_that_names_the_transaction() -> None:
    encoder = encoder_of(replace(SETTING_ASIDE, dead_letters=None))
    with pytest.raises(RecordError) as caught:
        records(encoder, transaction(WORDS, build.insert(OID, ["1", LATIN, None])))
    error = caught.value
    assert (error.table, error.column, error.lsn, error.commit_lsn) == (
        *("public.words", "word"),
        *(0x1010, 0x1800),
    )


# --- Hidden values stay hidden


WORD, NOTE = (r"public\.words\.word",), (r"public\.words\.note",)


@pytest.mark.parametrize("selection", [Selection(drop=WORD), Selection(mask=WORD)], ids=["drop", "mask"])
def test_a_dropped_or_masked_value_need_not_be_encodable(selection: Selection) -> None:
    options = replace(SETTING_ASIDE, selection=selection)
    (record,) = relayed(build.insert(OID, ["1", LATIN, None]), options=options)
    assert record[0] == "app.public.words"


@pytest.mark.parametrize(
    "selection",
    [Selection(drop=NOTE), Selection(mask=NOTE), Selection(hash=NOTE, hash_key=b"k")],
    ids=["drop", "mask", "hash"],
)
def test_hidden_values_are_not_in_letters(selection: Selection) -> None:
    options = replace(SETTING_ASIDE, selection=selection)
    (letter,) = relayed(build.insert(OID, ["1", LATIN, "secret"]), options=options)
    assert json.loads(headers_of(letter)["row"]) == {"id": "1", "word": "K\\xf6ln"}
    assert b"secret" not in repr(letter).encode()


def test_a_hashed_value_that_can_not_be_encoded_is_not_in_its_letter() -> None:
    options = replace(SETTING_ASIDE, selection=Selection(hash=(r"public\.words\.word",), hash_key=b"k"))
    (letter,) = relayed(build.insert(OID, ["1", LATIN, "n"]), options=options)
    assert letter[2] is None
    assert headers_of(letter)["column"] == b"word"
    assert "K\\xf6" not in repr(letter)


# --- What a topic would refuse


def test_a_record_too_large_for_its_topic_is_a_letter_with_its_whole_value() -> None:
    small, letter = relayed(
        build.insert(OID, ["1", "a", None]),
        build.insert(OID, ["2", "b" * 2_000, None]),
        options=limited(2_000),
    )
    assert small[0] == "app.public.words"
    assert letter[0] == "app.dead_letter"
    assert json.loads(letter[2] or b"")["after"] == {"id": 2, "word": "b" * 2_000, "note": None}
    # The record's size, since the letter has other headers.
    size = record_size(letter[1], letter[2] or b"", small[3])
    assert b"%d bytes, and topic app.public.words takes 2000" % size in headers_of(letter)["error"]
    assert headers_of(letter)["table"] == b"public.words"


@pytest.mark.parametrize("headers", [False, True])
@pytest.mark.parametrize(("less", "topic"), [(0, "app.public.words"), (1, "app.dead_letter")])
def test_a_records_size_counts_key_value_and_headers(headers: bool, less: int, topic: str) -> None:
    change = build.insert(OID, ["1", "a", None])
    _, key, value, sent, _ = relayed(change, options=limited(headers=headers))[0]
    most = record_size(key, value or b"", sent) - less
    (record,) = relayed(change, options=limited(most, headers=headers))
    assert record[0] == topic


def test_a_records_size_counts_the_old_key_header_of_a_key_change() -> None:
    moved = build.update(OID, ["1", None, None], key=["2" * 2_000, None, None])
    letters = relayed(moved, options=limited(2_000))
    assert [letter[0] for letter in letters] == ["app.dead_letter"] * 2


def test_the_error_names_the_producers_limit_if_that_is_the_smaller_one() -> None:
    limits = DeadLetterOptions(default=Limits(2_000, set_by_producer=True))
    options = replace(SETTING_ASIDE, dead_letters=limits)
    (letter,) = relayed(build.insert(OID, ["1", "b" * 2_000, None]), options=options)
    assert b"and message.max.bytes in sink.kafka is 2000 (" in headers_of(letter)["error"]


def test_a_long_letter_is_cut_and_names_its_original_size() -> None:
    (letter,) = relayed(build.insert(OID, ["1", "b" * 1_000_000, None]), options=limited(500_000))
    _, _, value, _, _ = letter
    assert value is not None
    assert len(value) == 256 * 1024
    assert int(headers_of(letter)["value_bytes"]) > 1_000_000


def test_the_row_in_a_letters_headers_is_cut_too() -> None:
    columns = [*COLUMNS, *(Column(f"more_{number}") for number in range(60))]
    relation = build.relation(OID, "public", "words", "d", columns)
    # Control characters take six bytes each in JSON.
    insert = build.insert(OID, ["1", LATIN, None, *["\x01" * 1_000] * 60])
    limits = DeadLetterOptions(default=Limits(100_000, set_by_producer=True))
    options = replace(SETTING_ASIDE, dead_letters=limits)
    ((_, key, value, headers, _),) = records(encoder_of(options), transaction(relation, insert))
    assert record_size(key, value or b"", headers) < 100_000
    assert "more_5" in json.loads(dict(headers or [])["row"] or b"")


def test_a_delete_in_a_letter_has_no_tombstone() -> None:
    delete = build.delete(OID, key=["1", "b" * 2_000, None])
    letters = relayed(KEYED_BY_WORD, delete, options=limited(2_000))
    assert [letter[0] for letter in letters] == ["app.dead_letter"]


def test_a_record_without_key_for_a_compacted_topic_is_a_letter() -> None:
    row, letter = relayed(
        build.insert(OID, ["1", "a", None]), build.truncate([OID]), options=limited(keyed=True)
    )
    assert row[0] == "app.public.words"
    assert letter[:2] == ("app.dead_letter", None)
    assert b"is compacted" in headers_of(letter)["error"]


def test_a_logical_message_can_be_a_letter() -> None:
    limits = DeadLetterOptions(default=Limits(1_000))
    options = replace(SETTING_ASIDE, dead_letters=limits)
    (letter,) = relayed(build.message("note", b"b" * 1_000), options=options)
    assert headers_of(letter)["table"] == b"message"


# --- The transaction topic counts the records in the tables' topics


def transaction_records(*messages: bytes) -> list[Record]:
    return relayed(*messages, options=limited(2_000, transactions=True))


def test_letters_do_not_count_in_the_transaction_topic() -> None:
    first, begin, row, last, end = transaction_records(
        build.insert(OID, ["1", LATIN, None]),
        build.insert(OID, ["2", "a", None]),
        build.insert(OID, ["3", "b" * 2_000, None]),
    )
    assert first[0] == last[0] == "app.dead_letter"
    assert begin[0] == end[0] == "app.transaction"
    assert row[0] == "app.public.words"
    assert json.loads(row[2] or b"")["transaction"]["total_order"] == 2
    value = json.loads(end[2] or b"")
    assert value["event_count"] == 1
    assert value["data_collections"] == [{"data_collection": "public.words", "event_count": 1}]


def test_a_transaction_of_letters_only_has_no_boundaries() -> None:
    topics = [
        record[0]
        for record in transaction_records(
            build.insert(OID, ["1", LATIN, None]), build.insert(OID, ["3", "b" * 2_000, None])
        )
    ]
    assert topics == ["app.dead_letter"] * 2


# --- For the log and the metrics


def test_letters_are_counted_by_table_and_the_first_20_are_kept() -> None:
    encoder = encoder_of(SETTING_ASIDE)
    records(encoder, transaction(WORDS, *[build.insert(OID, [str(n), LATIN, None]) for n in range(30)]))
    assert encoder.dead_letters.take_counts() == {"public.words": 30}
    assert encoder.dead_letters.take_counts() == {}
    latest = encoder.dead_letters.take_latest()
    assert len(latest) == 20
    assert latest[0].error.endswith("(LSN 0/1010)")
    assert encoder.dead_letters.take_latest() == []


def test_a_letter_is_not_counted_as_a_record() -> None:
    encoder = encoder_of(limited(2_000))
    large = "b" * 2_000
    changes = [
        build.insert(OID, ["1", "a", None]),
        build.insert(OID, ["2", large, None]),
        build.insert(OID, ["3", LATIN, None]),
        build.update(OID, ["1", large, None]),
        build.update(OID, ["4", large, None], key=["1", None, None]),
        KEYED_BY_WORD,
        build.delete(OID, key=["1", large, None]),
    ]
    records(encoder, transaction(WORDS, *changes))
    # The delete of the key change is small enough.
    assert encoder.take_counts() == [("public.words", "c", 1), ("public.words", "d", 1)]


def test_letters_of_truncates_and_messages_are_not_counted_as_records() -> None:
    keyed = limited(keyed=True)
    assert keyed.dead_letters is not None
    encoder = encoder_of(replace(keyed, dead_letters=replace(keyed.dead_letters, default=Limits(1_000))))
    large = build.message("note", b"b" * 1_000)
    letters = records(encoder, transaction(WORDS, build.truncate([OID]), large))
    assert [letter[0] for letter in letters] == ["app.dead_letter"] * 2
    assert encoder.take_counts() == []


# --- Skipping a whole transaction


def test_a_skipped_transaction_is_not_encoded() -> None:
    encoder = encoder_of(replace(SETTING_ASIDE, dead_letters=None))
    encoder.skip_transaction(0x2800)
    events = [
        *transaction(WORDS, build.insert(OID, ["1", "a", None]), commit_lsn=0x1800),
        *transaction(build.insert(OID, ["2", LATIN, None]), build.truncate([OID]), commit_lsn=0x2800),
        *transaction(build.insert(OID, ["3", "b", None]), commit_lsn=0x3800),
    ]
    found = [segment for segment in segments(encoder, events) if segment.end_lsn is not None]
    assert [(segment.end_lsn, len(segment.records)) for segment in found] == [(0x1808, 1), (0x2808, 0)]
    assert encoder.skipped_transaction == (2, 0x2808)


def message_and_transaction() -> list[Event]:
    """The message ends at the LSN where the transaction commits."""
    message = build.message("note", b"hi", lsn=0x1800, transactional=False)
    return [
        *transaction(message, xid=None, commit_lsn=0x1800),
        *transaction(WORDS, build.insert(OID, ["1", "a", None]), commit_lsn=0x1800),
    ]


def test_skipping_a_transaction_keeps_a_message_that_ends_at_its_commit() -> None:
    encoder = encoder_of(SETTING_ASIDE)
    encoder.skip_transaction(0x1800)
    assert [key for _, key, *_ in records(encoder, message_and_transaction())] == [b'{"prefix":"note"}']
    assert encoder.skipped_transaction == (1, 0x1808)


def test_after_a_skipped_message_nothing_more_is_encoded() -> None:
    """A failure behind it would prevent the commit that covers the skip."""
    encoder = encoder_of(SETTING_ASIDE)
    encoder.skip_transaction(0x1800, message=True)
    assert records(encoder, message_and_transaction()) == []
    assert encoder.skipped_transaction is not None
    assert encoder.skipped_transaction[0] == 1
    assert records(encoder, transaction(WORDS, build.insert(OID, ["2", "b", None]))) == []
    assert not encoder.pending


def test_nothing_is_skipped_if_the_lsn_never_comes() -> None:
    encoder = encoder_of(SETTING_ASIDE)
    encoder.skip_transaction(0x1000)
    assert len(records(encoder, transaction(WORDS, build.insert(OID, ["1", "a", None])))) == 1
    assert encoder.skipped_transaction is None
