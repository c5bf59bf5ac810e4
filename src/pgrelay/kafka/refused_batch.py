"""Which record is to blame for a batch that a broker has refused.

A broker refuses a batch as a whole, with one code, and librdkafka reports each of its records with that code,
all in one go. Only if the broker names several bad records, librdkafka gives the others a code of their own.
"""

from confluent_kafka import KafkaError, Message

from pgrelay.errors import PgrelayError
from pgrelay.kafka.delivery_errors import batch_error


class RefusedBatch:
    """The reports on the first batch that was refused; those of other partitions are ignored."""

    def __init__(self) -> None:
        self._partition: tuple[str, int | None] | None = None
        self._rank: tuple[bool, bool, int] | None = None
        self._error: KafkaError
        self._keyless = False
        self._commit_lsn = 0
        self._one_transaction = True
        self._only_key: bytes | None = None

    def add(self, error: KafkaError, message: Message, commit_lsn: int) -> None:
        """Take in a report; `commit_lsn` is that of the record's transaction."""
        partition = message.topic() or "?", message.partition()
        if self._partition is None:
            self._partition = partition
        elif self._partition != partition:
            return
        # If any is too large, the largest is; a compacted topic refuses those without a key.
        keyless = error.code() == KafkaError.INVALID_RECORD and message.key() is None
        size = 0 if error.code() == KafkaError.INVALID_RECORD else len(message)
        rank = (error.code() != KafkaError._INVALID_DIFFERENT_RECORD, keyless, size)
        self._only_key = message.key() if self._rank is None else None
        if self._rank is not None:
            self._one_transaction = self._one_transaction and commit_lsn == self._commit_lsn
        if self._rank is None or rank > self._rank:
            self._rank, self._error, self._keyless, self._commit_lsn = rank, error, keyless, commit_lsn

    def reason(self) -> PgrelayError:
        """The error of the batch. It names a transaction only if there is no doubt which."""
        assert self._partition is not None, "no report was added"
        certain = self._one_transaction or self._keyless
        commit_lsn = self._commit_lsn if certain else 0
        return batch_error(self._error, self._partition[0], commit_lsn, self._only_key, keyless=self._keyless)
