"""Kafka's errors: which are transient, and the cures of the others. For records: delivery_errors.py."""

from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError

from pgrelay.config.option_files import unreadable_file
from pgrelay.config.secrets import mask_error
from pgrelay.errors import KafkaUnavailable, PgrelayError, SetupError

# Errors that a grant cures, and errors for clients that are not let in at all.
UNAUTHORIZED: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)
UNAUTHENTICATED: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
# librdkafka uses the same codes if there was no answer: from a broker in the middle of a SASL handshake, or
# from the token endpoint, whose refusals are in the words of OAuth (RFC 6749, section 5.2).
_NO_MECHANISMS: Final = "broker's supported mechanisms: (n/a)"
_NO_TOKEN: Final = ("Failed to acquire SASL OAUTHBEARER token", "there is no token available")
TOKEN_REFUSALS: Final = ("invalid_", "unauthorized_client", "unsupported_")
# What OpenSSL says if it does not trust the other end, whichever client uses it.
UNTRUSTED: Final = "certificate verify failed"
# The same from the library that librdkafka requests tokens with.
_UNTRUSTED_TOKEN: Final = (
    "OAUTHBEARER token: SSL certificate",
    "OAUTHBEARER token: SSL: no alternative certificate",
    "OAUTHBEARER token: error adding trust anchors",
)
_REFUSED_TOKEN: Final = (*TOKEN_REFUSALS, "sasl.oauthbearer.config", *_UNTRUSTED_TOKEN)
# What librdkafka says if security.protocol is not the listener's, or if the broker goes away during the
# handshake; and what a broker says on a listener without SASL.
_OTHER_PROTOCOL: Final = ("listener?", "SSL connection closed by peer")
_NO_SASL: Final = "Request not valid in current SASL state"
_AUTHENTICATION: Final = "_AUTHENTICATION"
# A client that connects by the wrong protocol is disconnected without a reason.
PROTOCOL_CURE: Final = (
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
    ((_NO_MECHANISMS,), "check the broker"),
    ((_NO_SASL,), "correct security.protocol in sink.kafka: that listener does not use SASL"),
    (_OTHER_PROTOCOL, PROTOCOL_CURE),
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
_TRANSIENT: Final = frozenset(
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
        # From the client, if the broker that it asked has left the cluster.
        KafkaError._DESTROY_BROKER,
        # From a controller that is interrupted, or has an internal error.
        KafkaError.UNKNOWN,
    }
)
# Option names that a file may use, and what librdkafka's errors call them.
_ALIASES: Final[Mapping[str, str]] = {
    "linger.ms": "queue.buffering.max.ms",
    "compression.type": "compression.codec",
    "bootstrap.servers": "metadata.broker.list",
    "sasl.mechanism": "sasl.mechanisms",
}


def is_denied(error: KafkaError) -> bool:
    """Whether librdkafka reports that we, or an operation, are refused: somebody has to cure that."""
    if error.code() not in UNAUTHORIZED | UNAUTHENTICATED:
        return False
    text = error.str()
    if any(part in text for part in _NO_TOKEN):
        return any(word in text for word in _REFUSED_TOKEN)
    return _NO_MECHANISMS not in text


def cure(text: str) -> str:
    """What to do about an error of librdkafka. `text` is its text, with the code's name if known."""
    return next((cure for parts, cure in _CURES if any(part in text for part in parts)), _OTHERWISE)


def denied_error(reason: str) -> SetupError:
    """The error if `is_denied`; `reason` is what librdkafka says."""
    return SetupError(f"Kafka refuses us: {reason}; {cure(f'{_AUTHENTICATION} {reason}')}")


def unreachable_error(reason: str) -> KafkaUnavailable:
    """The error if no broker answers; `reason` is what librdkafka says."""
    return KafkaUnavailable(f"Kafka can't be reached: {reason}; {cure(reason)}")


def is_transient(reason: KafkaError) -> bool:
    """Whether an admin request that failed with this error may succeed later."""
    return reason.code() in _TRANSIENT


def may_succeed_later(reason: KafkaError, enough_brokers: bool) -> bool:
    """Whether a failed creation may succeed later; `enough_brokers`: counting those that are down."""
    return is_transient(reason) or brokers_fenced(reason) or (enough_brokers and too_few_brokers(reason))


def creation_error(topic: str, reason: KafkaError, enough_brokers: bool = False) -> PgrelayError:
    """The error for a topic that could not be created; `enough_brokers` as for `may_succeed_later`."""
    if may_succeed_later(reason, enough_brokers):
        return KafkaUnavailable(f"topic {topic} can't be created yet: {reason.str()}")
    return SetupError(
        f"topic {topic} can't be created: {reason.str()}; create it yourself, or correct pgrelay's rights, "
        "or sink.partitions, replication_factor and topic_config"
    )


def unknown_topic_error(topic: str) -> KafkaUnavailable:
    """The error for a topic that one broker says exists, and another does not know yet."""
    return KafkaUnavailable(f"topic {topic} exists, but the broker that was asked does not know it yet")


def too_few_brokers(reason: KafkaError) -> bool:
    """Whether a topic would have more replicas than there are active brokers: one that shuts down is not."""
    return reason.code() == KafkaError.INVALID_REPLICATION_FACTOR and not brokers_fenced(reason)


def brokers_fenced(reason: KafkaError) -> bool:
    """Whether a topic could not be created because all brokers are fenced: starting, or out of touch.

    Kafka has one code for this and for a replication factor that is too large; its text tells them apart.
    """
    return reason.code() == KafkaError.INVALID_REPLICATION_FACTOR and "fenced" in reason.str()


def options_error(error: Exception, options: Mapping[str, str]) -> SetupError:
    """The error if librdkafka refuses the options of `sink.kafka`."""
    if (missing := unreadable_file(options)) is not None:
        return SetupError(f"sink.kafka.{missing}; correct the path")
    text = " ".join(error_text(error).split())
    for alias, name in _ALIASES.items():
        # Use the name that the file uses.
        if alias in options and name not in options:
            text = text.replace(f'"{name}"', f'"{alias}"')
    return SetupError(f"sink.kafka: {mask_error(text, options)}; see librdkafka's CONFIGURATION.md")


def error_text(error: Exception) -> str:
    """The text of an error, of Kafka's client or any other."""
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else str(first)
