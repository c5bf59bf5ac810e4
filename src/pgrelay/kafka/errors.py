"""What Kafka's errors mean for us: which can be retried, which a user can cure, which refuse a record."""

import re
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError

from pgrelay.config.option_files import unreadable
from pgrelay.config.secrets import mask_complaint
from pgrelay.errors import KafkaUnavailable, PgrelayError, RecordRefused, SetupError
from pgrelay.lsn import format_lsn
from pgrelay.printable import printable

# Errors that a grant cures, and errors that mean that we are not let in at all.
UNAUTHORIZED: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)
UNKNOWN: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
DENIED: Final = UNAUTHORIZED | UNKNOWN
# librdkafka uses the same codes if nobody has answered: a broker in the middle of a SASL handshake, or the
# token endpoint, which if it refuses does so in the words of OAuth (RFC 6749, section 5.2).
_UNHEARD: Final = "broker's supported mechanisms: (n/a)"
_NO_TOKEN: Final = ("Failed to acquire SASL OAUTHBEARER token", "there is no token available")
TOKEN_REFUSALS: Final = ("invalid_", "unauthorized_client", "unsupported_")
# What OpenSSL says if it does not trust the other end, whoever uses it here.
UNTRUSTED: Final = "certificate verify failed"
# The same in the words of the library by which librdkafka asks for a token.
_UNTRUSTED_TOKEN: Final = (
    "OAUTHBEARER token: SSL certificate",
    "OAUTHBEARER token: SSL: no alternative certificate",
    "OAUTHBEARER token: error adding trust anchors",
)
_REFUSED_TOKEN: Final = (*TOKEN_REFUSALS, "sasl.oauthbearer.config", *_UNTRUSTED_TOKEN)
# What librdkafka says if security.protocol is not the listener's, or if a broker goes away during the
# handshake; and what a broker says on a listener without SASL.
_OTHER_PROTOCOL: Final = ("listener?", "SSL connection closed by peer")
_NO_SASL: Final = "Request not valid in current SASL state"
_AUTHENTICATION: Final = "_AUTHENTICATION"
# A client that connects by the wrong protocol is disconnected without a reason.
SPEECHLESS: Final = (
    "set security.protocol in sink.kafka to the listener's (PLAINTEXT, SSL, SASL_SSL, ...), "
    "or check the broker"
)
# Parts of librdkafka's text or of its code's name, and what to do about it; the first match counts.
_CURES: Final = (
    (_UNTRUSTED_TOKEN, "set https.ca.location in sink.kafka to the file of the token endpoint's authority"),
    (
        _NO_TOKEN,
        "start the server at sasl.oauthbearer.token.endpoint.url, or correct the sasl.oauthbearer.* options "
        "in sink.kafka",
    ),
    ((_UNHEARD,), "check the broker"),
    ((_NO_SASL,), "correct security.protocol in sink.kafka: that listener does not use SASL"),
    (_OTHER_PROTOCOL, SPEECHLESS),
    (
        (_AUTHENTICATION, "SASL"),
        "correct the credentials in sink.kafka: sasl.mechanism, sasl.username and sasl.password",
    ),
    (
        ("_SSL", "SSL handshake", "certificate"),
        "correct security.protocol and the ssl.* options in sink.kafka",
    ),
    (("_RESOLVE", "Failed to resolve"), "correct the host in sink.kafka's bootstrap.servers"),
    (("_BAD_MSG", "Invalid response"), "point sink.kafka's bootstrap.servers at a Kafka listener"),
)
_OTHERWISE: Final = "start the brokers, or correct bootstrap.servers in sink.kafka"
# Transient errors of admin requests; `KafkaError.retriable` is only about transactions.
_LATER: Final = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        # What the client says if the broker that it asked has left the cluster.
        KafkaError._DESTROY_BROKER,
        # What a controller says that is interrupted, or that fails in a way of its own.
        KafkaError.UNKNOWN,
    }
)
# Option names that a file may use, and the names for them in librdkafka's errors.
_ALIASES: Final[Mapping[str, str]] = {
    "linger.ms": "queue.buffering.max.ms",
    "compression.type": "compression.codec",
    "bootstrap.servers": "metadata.broker.list",
    "sasl.mechanism": "sasl.mechanisms",
}
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
# What a broker's checks of single records give, whichever failed; the second for the others of the batch.
_CHECKED: Final = frozenset({KafkaError.INVALID_RECORD, KafkaError._INVALID_DIFFERENT_RECORD})
_FAILED_CHECKS: Final = (
    "not for want of a key; correct our clock or the broker's, if they differ by more than the topic's "
    "message.timestamp.before.max.ms or message.timestamp.after.max.ms; or see what the broker validates"
)

# How not to send such records at all: the last cure. Topics of other records than rows have another one, and
# a table may have such a name too.
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

# What librdkafka says about a topic that it knew, once the brokers have not known it for a while. The last is
# for records that were still in a partition's queue when it dropped the partition.
GONE: Final = frozenset(
    {
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._DESTROY,
    }
)
# The cure of that.
RECREATED: Final = (
    "it is re-created if sink.create_topics is true; if it was deleted, its earlier records are lost: copy "
    "its tables again"
)

# What it means if the broker lacks earlier records. It reports that once, so the message must say it all.
_DESYNCHRONIZED: Final = (
    "the topic may have lost acknowledged records, for example by an unclean leader election; copy its "
    "tables again"
)
# What it means if we have given a request up just before: librdkafka names the partition's last error, and
# when that was.
_GIVEN_UP: Final = re.compile(r"last partition error _TIMED_OUT \([^()]*?(\d+)ms ago\)")
_JUST_BEFORE_MS: Final = 120_000
_TOO_SLOW: Final = (
    "Kafka was too slow, or throttles us by a quota, so that a request was given up and sent again; raise "
    "socket.timeout.ms in sink.kafka, or the quota"
)


def desynchronized(error: KafkaError) -> str | None:
    """What it means if a broker lacks records between those that it has from us and the next; else None."""
    text = error.str()
    if error.code() != KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER and "sequence desynchronization" not in text:
        return None
    given_up = _GIVEN_UP.search(text)
    return _TOO_SLOW if given_up is not None and int(given_up[1]) <= _JUST_BEFORE_MS else _DESYNCHRONIZED


def denied(error: KafkaError) -> bool:
    """Whether librdkafka reports a refusal, of us or of a right: it stands until somebody cures it."""
    if error.code() not in DENIED:
        return False
    text = error.str()
    if any(told in text for told in _NO_TOKEN):
        return any(word in text for word in _REFUSED_TOKEN)
    return _UNHEARD not in text


def cure(told: str) -> str:
    """What to do about an error of librdkafka's. `told` is its text, with the code's name if known."""
    return next((cure for parts, cure in _CURES if any(part in told for part in parts)), _OTHERWISE)


def denial(reason: str) -> SetupError:
    """The error if we are `denied`; `reason` is what librdkafka says."""
    return SetupError(f"Kafka refuses us: {reason}; {cure(f'{_AUTHENTICATION} {reason}')}")


def unreached(reason: str) -> KafkaUnavailable:
    """The error if no broker answers; `reason` is what librdkafka says."""
    return KafkaUnavailable(f"Kafka can't be reached: {reason}; {cure(reason)}")


def delivery_error(error: KafkaError, topic: str, commit_lsn: int, key: bytes | None = None) -> PgrelayError:
    """The error for a record that was refused for good.

    `commit_lsn` is 0, and `key` is None, if it is not known which record of a batch is the wrong one.
    """
    code = error.code()
    if code in POISON:
        return _record_refused(topic, commit_lsn, key, f"{error.str()}; {POISON[code]}")
    if code in UNAUTHORIZED:
        return SetupError(
            f"Kafka refuses writes to topic {topic}: {error.str()}; grant WRITE and DESCRIBE on it"
        )
    if denied(error):
        return denial(error.str())
    if code in GONE:
        return KafkaUnavailable(f"topic {topic} is gone ({error.str()}): {RECREATED}")
    if (meaning := desynchronized(error)) is not None:
        return KafkaUnavailable(f"topic {topic}: {error.str()}: {meaning}")
    if code == KafkaError.INVALID_TIMESTAMP:
        return KafkaUnavailable(
            f"topic {topic}: {error.str()}: our clock differs from the broker's by more than the topic's "
            "message.timestamp.before.max.ms or message.timestamp.after.max.ms; correct the wrong clock"
        )
    return KafkaUnavailable(f"topic {topic}: {error.str()}")


def passed_over(topic: str) -> KafkaUnavailable:
    """The error for a record that a partition may lack, although it took a later one."""
    return KafkaUnavailable(
        f"topic {topic}: Kafka has taken later records, but may lack earlier ones, as after a change of "
        "leader; what is not confirmed is sent again"
    )


def oversized(topic: str, commit_lsn: int, key: bytes | None, size: int, most: int) -> RecordRefused:
    """The error for a record of `size` bytes, which the producer's own limit does not let pass."""
    why = f"it has {size} bytes, and message.max.bytes in sink.kafka is {most}"
    return _record_refused(topic, commit_lsn, key, f"{why}; raise that, and the topic's max.message.bytes")


def _record_refused(topic: str, commit_lsn: int, key: bytes | None, why: str) -> RecordRefused:
    """`why` ends with a cure."""
    text = f"{_undeliverable(topic, commit_lsn, key)}: {why}; {_left_out(topic)}"
    return RecordRefused(text, topic, commit_lsn)


def _undeliverable(topic: str, commit_lsn: int, key: bytes | None) -> str:
    """A record that can't be delivered, in one line; `commit_lsn` is 0 and `key` None if not known."""
    of = f", of the transaction committed at {format_lsn(commit_lsn)}," if commit_lsn else ""
    return f"a record of topic {topic}{of}{_named(key)} can't be delivered"


def _named(key: bytes | None) -> str:
    if key is None:
        return ""
    # In one line whatever it holds: an Avro key is not text.
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
        failure: PgrelayError = failed_checks(topic, commit_lsn, key, error)
    else:
        failure = delivery_error(error, topic, commit_lsn, key)
    if isinstance(failure, RecordRefused):
        failure.by_broker, failure.keyless = True, keyless
    return failure


def failed_checks(
    topic: str, commit_lsn: int, key: bytes | None = None, error: KafkaError | None = None
) -> RecordRefused:
    """The error for a record that a broker's checks refuse, though not for want of a key."""
    said = "" if error is None else f"{error.str()}: "
    return _record_refused(topic, commit_lsn, key, f"{said}{_FAILED_CHECKS}")


def _left_out(topic: str) -> str:
    how = next((how for ending, how in _LEFT_OUT.items() if topic.endswith(ending)), _NO_TABLE)
    return f"or {how}"


def passes(reason: KafkaError) -> bool:
    """Whether an admin request that failed so may succeed later."""
    return reason.code() in _LATER


def creatable_later(reason: KafkaError, enough_brokers: bool) -> bool:
    """Whether a failed creation may succeed later; `enough_brokers`: the cluster has them, if not now."""
    return passes(reason) or fenced(reason) or (enough_brokers and too_few_brokers(reason))


def uncreated(topic: str, reason: KafkaError, enough_brokers: bool = False) -> PgrelayError:
    """The error for a topic that could not be created; `enough_brokers` as for `creatable_later`."""
    if creatable_later(reason, enough_brokers):
        return KafkaUnavailable(f"topic {topic} can't be created yet: {reason.str()}")
    return SetupError(
        f"topic {topic} can't be created: {reason.str()}; create it yourself, or correct pgrelay's rights, "
        "or sink.partitions, replication_factor and topic_config"
    )


def unheard(topic: str) -> KafkaUnavailable:
    """The error for a topic that exists according to one broker, while another does not know it yet."""
    return KafkaUnavailable(f"topic {topic} exists, but the broker that was asked does not know it yet")


def too_few_brokers(reason: KafkaError) -> bool:
    """Whether a topic is to have more replicas than brokers take part: one that shuts down does not."""
    return reason.code() == KafkaError.INVALID_REPLICATION_FACTOR and not fenced(reason)


def fenced(reason: KafkaError) -> bool:
    """Whether a topic could not be created because all brokers are fenced: starting, or out of touch.

    Kafka has one code for this and for a replication factor that is too large; its text tells them apart.
    """
    return reason.code() == KafkaError.INVALID_REPLICATION_FACTOR and "fenced" in reason.str()


def refused_options(error: Exception, options: Mapping[str, str]) -> SetupError:
    """The error if librdkafka refuses the options of `sink.kafka`."""
    if (missing := unreadable(options)) is not None:
        return SetupError(f"sink.kafka.{missing}; correct the path")
    told = " ".join(what_it_says(error).split())
    for alias, name in _ALIASES.items():
        # Use the name that the file uses.
        if alias in options and name not in options:
            told = told.replace(f'"{name}"', f'"{alias}"')
    return SetupError(f"sink.kafka: {mask_complaint(told, options)}; see librdkafka's CONFIGURATION.md")


def what_it_says(error: Exception) -> str:
    """The text of an error of Kafka's client, or of any other error."""
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else str(first)
