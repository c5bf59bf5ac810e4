"""Which record of a refused batch is to blame. There is no broker."""

import pytest
from confluent_kafka import KafkaError, Message

from pgrelay.errors import KafkaUnavailable, PgrelayError, RecordRefused
from pgrelay.kafka.refused_batch import RefusedBatch

TOO_LARGE = KafkaError.MSG_SIZE_TOO_LARGE
INVALID = KafkaError.INVALID_RECORD
OTHERS = KafkaError._INVALID_DIFFERENT_RECORD

Report = tuple[int, Message, int]


def report(
    code: int, commit_lsn: int, key: bytes | None = b"k", size: int = 10, partition: int = 0
) -> Report:
    return code, Message(topic="app.t", partition=partition, key=key, value=b"v" * size), commit_lsn


def reason(*reports: Report) -> PgrelayError:
    batch = RefusedBatch()
    for code, message, commit_lsn in reports:
        batch.add(KafkaError(code), message, commit_lsn)
    return batch.reason()


def refused(*reports: Report) -> RecordRefused:
    error = reason(*reports)
    assert isinstance(error, RecordRefused)
    assert (error.topic, error.by_broker) == ("app.t", True)
    return error


def test_a_batch_of_one_transaction_names_it() -> None:
    error = refused(report(TOO_LARGE, 0x100), report(TOO_LARGE, 0x100, size=20_000))
    assert error.commit_lsn == 0x100
    assert "of the transaction committed at 0/100," in str(error)


def test_a_batch_of_several_transactions_that_is_too_large_names_none() -> None:
    """Not even that of the largest record: all may be small, and only their batch too large."""
    error = refused(report(TOO_LARGE, 0x100), report(TOO_LARGE, 0x200, size=20_000))
    assert error.commit_lsn == 0
    assert "transaction" not in str(error)


def test_a_record_without_key_is_to_blame_whatever_came_before_it() -> None:
    error = refused(
        report(INVALID, 0x100), report(INVALID, 0x200, key=None), report(INVALID, 0x300, key=None)
    )
    assert (error.commit_lsn, error.keyless) == (0x200, True)


def test_the_code_of_the_other_records_is_no_reason() -> None:
    """librdkafka gives it to the valid ones if a broker names two records or more."""
    error = refused(report(OTHERS, 0x100), report(INVALID, 0x200, key=None), report(INVALID, 0x300, key=None))
    assert error.commit_lsn == 0x200
    assert str(error).startswith("a record of topic app.t, of the transaction committed at 0/200, can't be")


@pytest.mark.parametrize("codes", [[INVALID], [INVALID, INVALID], [OTHERS, INVALID], [OTHERS]])
def test_records_with_keys_are_not_refused_for_want_of_one(codes: list[int]) -> None:
    """Two wrong timestamps have the same code as a record without key in a compacted topic."""
    error = refused(*(report(code, 0x100) for code in codes))
    assert (error.commit_lsn, error.keyless) == (0x100, False)
    assert "not for want of a key; correct our clock" in str(error)


def test_the_only_record_of_a_batch_is_named_by_its_key() -> None:
    assert " with key k can't be delivered" in str(refused(report(TOO_LARGE, 0x100)))
    assert " with key" not in str(refused(report(TOO_LARGE, 0x100), report(TOO_LARGE, 0x100)))


def test_only_the_first_batch_counts() -> None:
    first = report(INVALID, 0x100, key=None)
    other = report(TOO_LARGE, 0x50, size=1_000, partition=1)
    assert refused(first, other).commit_lsn == 0x100


def test_other_refusals_are_those_of_a_single_record() -> None:
    error = reason(report(KafkaError.INVALID_TIMESTAMP, 0x100))
    assert isinstance(error, KafkaUnavailable)
