"""What Kafka's errors mean for us: what can be retried, what a user can cure, which record is refused."""

from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError

from pgrelay.config.option_files import unreadable
from pgrelay.config.secrets import mask_complaint
from pgrelay.errors import KafkaUnavailable, PgrelayError, RecordRefused, SetupError
from pgrelay.lsn import format_lsn

# What rights cure, and what means that we are not let in at all.
UNAUTHORIZED: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)
UNKNOWN: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
DENIED: Final = UNAUTHORIZED | UNKNOWN
# By the same codes librdkafka tells that nobody has answered: a broker amid the handshake of SASL, or whoever
# gives out tokens, who refuses in the words of OAuth (RFC 6749, section 5.2).
_UNHEARD: Final = "broker's supported mechanisms: (n/a)"
_NO_TOKEN: Final = ("Failed to acquire SASL OAUTHBEARER token", "there is no token available")
TOKEN_REFUSALS: Final = ("invalid_", "unauthorized_client", "unsupported_")
_REFUSED_TOKEN: Final = (*TOKEN_REFUSALS, "sasl.oauthbearer.config")
# What librdkafka says where security.protocol is not the listener's, or where a broker goes away amid the
# handshake; and what a broker says on a listener without SASL.
_OTHER_PROTOCOL: Final = ("listener?", "SSL connection closed by peer")
_NO_SASL: Final = "Request not valid in current SASL state"
_AUTHENTICATION: Final = "_AUTHENTICATION"
# Who connects by another protocol and is hung up on hears no reason.
SPEECHLESS: Final = (
    "set security.protocol in sink.kafka as the listener wants it (PLAINTEXT, SSL, SASL_SSL, ...), "
    "or see whether the broker is well"
)
# What librdkafka's text or the name of its code holds, and what to do about it; the first that fits counts.
_CURES: Final = (
    (
        _NO_TOKEN,
        "start what sasl.oauthbearer.token.endpoint.url names, or correct the sasl.oauthbearer.* options in "
        "sink.kafka",
    ),
    ((_UNHEARD,), "see whether the broker is well"),
    ((_NO_SASL,), "correct security.protocol in sink.kafka, as that listener takes no SASL"),
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
# What passes by itself where a topic is to be made; `KafkaError.retriable` is of transactions alone.
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
    }
)
# Names that a file may use for options which librdkafka's errors call otherwise.
_ALIASES: Final[Mapping[str, str]] = {
    "linger.ms": "queue.buffering.max.ms",
    "compression.type": "compression.codec",
    "bootstrap.servers": "metadata.broker.list",
    "sasl.mechanism": "sasl.mechanisms",
}
_ALLOW_MORE: Final = (
    "raise the topic's max.message.bytes, and message.max.bytes in sink.kafka; or, where it is a batch of "
    "small records that is too large, lower batch.size there"
)
# Errors that no retry makes better, and their cures.
POISON: Final[Mapping[int, str]] = {
    KafkaError.MSG_SIZE_TOO_LARGE: _ALLOW_MORE,
    KafkaError.INVALID_MSG_SIZE: _ALLOW_MORE,
    KafkaError.RECORD_LIST_TOO_LARGE: _ALLOW_MORE,
    KafkaError.INVALID_RECORD: "a compacted topic takes no record without a key: change its cleanup.policy",
    KafkaError.INVALID_MSG: "look into the broker's log",
    KafkaError.POLICY_VIOLATION: "look into the broker's log",
}

# The characters of a key that are shown; no character has more than four bytes.
_KEY_SHOWN: Final = 200
_KEY_BYTES: Final = 4 * _KEY_SHOWN

# What librdkafka says of a topic that it knew, once the brokers have not known it for a while. The last is of
# records that were still in a partition's queue when it let go of the partition.
_GONE: Final = frozenset(
    {
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._DESTROY,
    }
)


# What it means that the broker has not got what went before. Its own error is the last that it gives of it.
DESYNCHRONIZED: Final = (
    "the topic may have lost records that were acknowledged, as by an unclean leader election; copy the "
    "tables that it has anew"
)


def desynchronized(error: KafkaError) -> bool:
    """Whether a broker misses records between those that it has of us and the next."""
    return (
        error.code() == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER or "sequence desynchronization" in error.str()
    )


def denied(error: KafkaError) -> bool:
    """Whether a complaint of librdkafka's is a refusal, of us or of a right: it stands until it is cured."""
    if error.code() not in DENIED:
        return False
    text = error.str()
    if any(told in text for told in _NO_TOKEN):
        return any(word in text for word in _REFUSED_TOKEN)
    return _UNHEARD not in text


def cure(told: str) -> str:
    """What to do about a complaint of librdkafka's: its text, with its code's name where that is known."""
    return next((cure for parts, cure in _CURES if any(part in told for part in parts)), _OTHERWISE)


def denial(reason: str) -> SetupError:
    """What it means that we are `denied`, for a reason that librdkafka gave."""
    return SetupError(f"Kafka refuses us: {reason}; {cure(f'{_AUTHENTICATION} {reason}')}")


def unreached(reason: str) -> KafkaUnavailable:
    """The error where no broker answers, for the reason that librdkafka gave."""
    return KafkaUnavailable(f"Kafka can't be reached: {reason}; {cure(reason)}")


def delivery_error(error: KafkaError, topic: str, commit_lsn: int, key: bytes | None = None) -> PgrelayError:
    """The error for a record that was refused for good.

    `commit_lsn` is 0 if it is of no transaction. `key` is None also if a broker refused the record: a broker
    refuses whole batches, and what is wrong may be another record of it.
    """
    code = error.code()
    if code in POISON:
        of = f", of the transaction committed at {format_lsn(commit_lsn)}," if commit_lsn else ""
        refused = RecordRefused(
            f"a record of topic {topic}{of}{_named(key)} can't be delivered: {error.str()}; "
            f"{POISON[code]}; or take the table out of the publication"
        )
        refused.topic, refused.commit_lsn = topic, commit_lsn
        return refused
    if code in DENIED:
        return SetupError(f"Kafka refuses writes to topic {topic}: {error.str()}; grant WRITE on it")
    if code in _GONE:
        return KafkaUnavailable(
            f"topic {topic} is gone ({error.str()}): it is made anew where sink.create_topics says so; if it "
            "was deleted, its earlier records are lost: copy the tables that it had"
        )
    if desynchronized(error):
        return KafkaUnavailable(f"topic {topic}: {error.str()}: {DESYNCHRONIZED}")
    if code == KafkaError.INVALID_TIMESTAMP:
        return KafkaUnavailable(
            f"topic {topic}: {error.str()}: by the broker's clock ours is wrong by more than the topic's "
            "message.timestamp.before.max.ms or message.timestamp.after.max.ms; set the clock that is wrong"
        )
    return KafkaUnavailable(f"topic {topic}: {error.str()}")


def _named(key: bytes | None) -> str:
    if key is None:
        return ""
    # In one line whatever is in it: an Avro key is no text.
    text = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in key[:_KEY_BYTES].decode(errors="backslashreplace")
    )
    shown = text if len(key) <= _KEY_BYTES and len(text) <= _KEY_SHOWN else f"{text[:_KEY_SHOWN]}…"
    return f" with key {shown}"


def uncreated(topic: str, reason: KafkaError) -> PgrelayError:
    """The error for a topic that could not be made."""
    if reason.code() in _LATER or fenced(reason):
        return KafkaUnavailable(f"topic {topic} can't be created yet: {reason.str()}")
    return SetupError(
        f"topic {topic} can't be created: {reason.str()}; create it yourself, or correct our rights, "
        "or sink.partitions, replication_factor and topic_config"
    )


def unheard(topic: str) -> KafkaUnavailable:
    """The error for a topic that is there by one broker's word, while another does not know of it yet."""
    return KafkaUnavailable(f"topic {topic} is there, and the broker that we ask has not heard of it yet")


def fenced(reason: KafkaError) -> bool:
    """Whether a topic could not be made because all brokers are fenced: they start, or were out of touch.

    Kafka has one code for this and for a replication factor that is too large; its text tells them apart.
    """
    return reason.code() == KafkaError.INVALID_REPLICATION_FACTOR and "fenced" in reason.str()


def refused_options(error: Exception, options: Mapping[str, str]) -> SetupError:
    """The error where librdkafka refuses the options of `sink.kafka`."""
    if (missing := unreadable(options)) is not None:
        return SetupError(f"sink.kafka.{missing}; correct the path")
    told = " ".join(what_it_says(error).split())
    for alias, name in _ALIASES.items():
        # Under the name that the file has.
        if alias in options and name not in options:
            told = told.replace(f'"{name}"', f'"{alias}"')
    return SetupError(f"sink.kafka: {mask_complaint(told, options)}; see librdkafka's CONFIGURATION.md")


def what_it_says(error: Exception) -> str:
    """The text of an error of Kafka's client, or of another."""
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else str(first)
