"""The librdkafka options that pgrelay refuses because they would break its guarantees, each with the reason.

Numbers that librdkafka would read only in part are refused too. All other options pass through untouched;
librdkafka itself refuses an unknown one when the producer is created. Names and aliases: librdkafka's
CONFIGURATION.md.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pgrelay.config import addresses
from pgrelay.config.secrets import quoted

BOOTSTRAP: Final = "bootstrap.servers"
_BROKERS: Final = (BOOTSTRAP, "metadata.broker.list")

_ALIASES: Final[Mapping[str, str]] = {
    "request.required.acks": "acks",
    "delivery.timeout.ms": "message.timeout.ms",
    "retries": "message.send.max.retries",
    "max.in.flight": "max.in.flight.requests.per.connection",
}

# Properties of the Python client that take a function or an object.
_NOT_TEXT: Final = frozenset({"on_delivery", "logger", "opaque", "default_topic_conf"})

# Options that are a time, a size or a count, which people may write with a unit. librdkafka parses only the
# leading digits, as C does: it reads `5s` as 5 and `010` as 8.
_MEASURES: Final = (".ms", ".bytes", ".kbytes", ".messages", ".size")
_WHOLE: Final = re.compile("-?(0|[1-9][0-9]*)")
# The only option that may be a fraction, under both of its names.
LINGER_OPTIONS: Final = frozenset({"linger.ms", "queue.buffering.max.ms"})
_FRACTION: Final = re.compile("[0-9]+([.][0-9]+)?")
# Options whose values pgrelay itself computes with.
_COUNTED: Final = frozenset(
    {"batch.size", "message.max.bytes", "queue.buffering.max.kbytes", "transaction.timeout.ms"}
)
_UNSIGNED: Final = re.compile("0|[1-9][0-9]*")

_TRUE: Final = frozenset({"true", "t", "1"})
FALSE: Final = frozenset({"false", "f", "0"})


@dataclass(frozen=True, slots=True)
class _Rule:
    """The values that an option may be set to, if it is set at all, and why no other is allowed."""

    allowed: frozenset[str]
    why: str


_RULES: Final[Mapping[str, _Rule]] = {
    "acks": _Rule(
        frozenset({"all", "-1"}),
        "a change is confirmed to Postgres only when every in-sync replica has it",
    ),
    "enable.idempotence": _Rule(_TRUE, "without idempotence a retry can reorder or duplicate records"),
    "enable.gapless.guarantee": _Rule(
        FALSE, "pgrelay sets it itself, but not for exactly_once, which undoes what fails"
    ),
    "partitioner": _Rule(
        frozenset({"murmur2_random"}),
        "pgrelay partitions records as Java clients do, so that topics co-partition with theirs",
    ),
    "message.timeout.ms": _Rule(
        frozenset({"0"}), "pgrelay waits for the broker as long as it takes; giving up would lose the record"
    ),
    "message.send.max.retries": _Rule(
        frozenset({"2147483647"}), "pgrelay retries as long as it takes; giving up would lose the record"
    ),
    "max.in.flight.requests.per.connection": _Rule(
        frozenset("12345"), "with more than 5 requests in flight the broker can't keep the order"
    ),
    "queuing.strategy": _Rule(frozenset({"fifo"}), "records must be sent in commit order"),
    "delivery.report.only.error": _Rule(
        FALSE, "pgrelay needs the report of every delivered record to know its progress"
    ),
    "allow.auto.create.topics": _Rule(
        FALSE, "a deleted topic would silently be re-created with the broker's settings"
    ),
    "transactional.id": _Rule(frozenset(), "pgrelay sets it itself, so that a second relay is fenced"),
}


def refused_options(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (option, why with the cure) for each option that pgrelay refuses."""
    for name, value in options.items():
        if name in _NOT_TEXT or name.endswith("_cb"):
            yield name, "takes a Python function, which a configuration file can't give; leave it out"
            continue
        if name.endswith(_MEASURES) and not _read_whole(name, value):
            kind = "number" if name in LINGER_OPTIONS else "whole number"
            unit = " of milliseconds" if name.endswith(".ms") else ""
            yield name, f"got {quoted(value)}; write a {kind}{unit}"
            continue
        rule = _RULES.get(_ALIASES.get(name, name))
        if rule is not None and value.lower() not in rule.allowed:
            yield name, f"can't be {quoted(value)}: {rule.why}; leave it out"


def _read_whole(name: str, value: str) -> bool:
    """Whether librdkafka would parse all of the value's text as the number that it looks like."""
    if name in LINGER_OPTIONS:
        return _FRACTION.fullmatch(value) is not None
    return (_UNSIGNED if name in _COUNTED else _WHOLE).fullmatch(value) is not None


def broker_faults(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (option, what is wrong and the cure) if the brokers' addresses are missing or malformed."""
    if not options.get(BOOTSTRAP, "").strip(", "):
        yield BOOTSTRAP, "missing; set it to the brokers, host:port,host:port"
    for name in _BROKERS:
        if (fault := addresses.brokers_fault(options.get(name, ""))) is not None:
            yield name, fault
