"""Why a producer has failed, and which of several errors is raised.

librdkafka reports one failure in several ways, not all of which give the reason. The first of these counts:

1. `reason`: why a record was refused (from its report) or we were (from `error_cb`), or one was passed over
2. `transaction_error`: exactly once, why the open transaction can't be committed
3. `symptom`: what merely follows from a failure: a record was dropped, or is no longer accepted. A sink with
   transactions asks librdkafka for the cause; any other gets it as the error of a call

Any thread may take in the reports on a refused batch, and only all of them together give the reason.
"""

import contextlib
import re
from collections.abc import Collection, Iterator, Mapping
from threading import Lock
from typing import Final

from confluent_kafka import KafkaError, Message, ThrottleEvent

from pgrelay.config.secrets import mask_error
from pgrelay.errors import PgrelayError, SetupError
from pgrelay.kafka.delivery_errors import PURGED, delivery_error, passed_over_error
from pgrelay.kafka.errors import UNAUTHENTICATED, UNTRUSTED, denied_error, is_denied
from pgrelay.kafka.refused_batch import RefusedBatch

# What librdkafka adds to an error text. It differs each time, and would make each look new.
_PARTICULARS: Final = re.compile(r" \(after \d+ms in state [^()]*(\(s\)[^()]*)?\)")


class Failures:
    """The failures of one producer. Any of them makes it unusable.

    `problem` is no failure: the last error that librdkafka reported since the last acknowledgement, and that
    may pass. `all_brokers_down`: since then, it has had no broker at some moment. `locked_out`: Kafka does
    not let us in, or we do not trust it, so no report will come.
    """

    def __init__(self, options: Mapping[str, str], symptoms: Collection[int] = PURGED) -> None:
        """`options` are librdkafka's, so that no error shows a secret among them.

        `symptoms`: the codes of reports that follow from a failure without giving its reason.
        """
        self.problem: str | None = None
        self.all_brokers_down = False
        self.locked_out = False
        self.reason: PgrelayError | None = None
        self.transaction_error: PgrelayError | None = None
        self.symptom: PgrelayError | None = None
        self._symptoms = symptoms
        self._throttled_s = 0.0
        self._options = options
        self._count = 0
        self._batch: RefusedBatch | None = None
        # How many threads are taking in reports.
        self._taking, self._lock = 0, Lock()

    @property
    def failed(self) -> bool:
        """A record was refused for good, or we are, even if the reason is not known yet."""
        return self._batch is not None or any(error is not None for error in self.errors)

    @property
    def errors(self) -> tuple[PgrelayError | None, ...]:
        return self.reason, self.transaction_error, self.symptom

    def on_error(self, error: KafkaError) -> None:
        """Take in an error that is not about a record: librdkafka's `error_cb`."""
        text = mask_error(_PARTICULARS.sub("", error.str()), self._options)
        untrusted = error.code() == KafkaError._SSL and UNTRUSTED in text
        refused = is_denied(error)
        self.all_brokers_down = self.all_brokers_down or error.code() == KafkaError._ALL_BROKERS_DOWN
        self.locked_out = self.locked_out or untrusted or (refused and error.code() in UNAUTHENTICATED)
        if refused:
            self._fail(denied_error(text))
        elif untrusted:
            self._fail(
                SetupError(
                    f"Kafka's certificate is not trusted: {text}; correct the ssl.* options, or the host"
                )
            )
        elif self.problem is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.problem = text

    def clear_problem(self) -> None:
        """A record was acknowledged, so the problem is over."""
        self.problem, self.all_brokers_down = None, False

    def _fail(self, error: PgrelayError) -> None:
        self._count += 1
        self.reason = self.reason or error

    def on_refused(self, error: KafkaError | None, message: Message, commit_lsn: int) -> None:
        """Take in the report on a record that was refused for good, or dropped because of a failure.

        Without an error, librdkafka only assumes that it was written, as the partition has a later one.
        """
        if error is None:
            self.reason = self.reason or passed_over_error(message.topic() or "?")
            return
        if error.code() in self._symptoms:
            self.symptom = self.symptom or delivery_error(error, message.topic() or "?", commit_lsn)
            return
        self._count += 1
        if self.reason is None:
            self._batch = self._batch or RefusedBatch()
            self._batch.add(error, message, commit_lsn)

    @contextlib.contextmanager
    def taking_reports(self) -> Iterator[None]:
        """A thread takes in reports during this block. Several may at once."""
        with self._lock:
            self._taking += 1
        try:
            yield
        finally:
            with self._lock:
                self._taking -= 1
                # Another thread may be in the middle of a batch's reports.
                if self._taking == 0 and self._batch is not None:
                    self.reason = self.reason or self._batch.reason()
                    self._batch = None

    def raise_unless(self, known: PgrelayError | None) -> None:
        """Raise the reason, unless it is `known`, or else the transaction's error."""
        if self.reason is not None and self.reason is not known:
            raise self.reason
        if self.transaction_error is not None:
            raise self.transaction_error

    def on_throttle(self, event: ThrottleEvent) -> None:
        """Take in that a broker delays its answers because of a quota: librdkafka's `throttle_cb`."""
        self._throttled_s = max(self._throttled_s, event.throttle_time)

    def take_throttled_s(self) -> float:
        """The longest delay, in seconds, by which a quota has held up an answer since the last call."""
        longest, self._throttled_s = self._throttled_s, 0.0
        return longest

    def take_count(self) -> int:
        """How many times a record was refused for good, or we were, since the last call."""
        count, self._count = self._count, 0
        return count
