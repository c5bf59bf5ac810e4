"""Whether Kafka answers, and whether each broker can be reached at the address that it advertises."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from pgrelay.check.findings import Finding, error, first_few, ok, refusal_finding, warning
from pgrelay.check.kafka_topics import topic_findings
from pgrelay.check.topics import WantedTopic
from pgrelay.config import SinkConfig
from pgrelay.config.kafka_options import BOOTSTRAP, FALSE
from pgrelay.config.secrets import mask_error
from pgrelay.errors import SetupError
from pgrelay.figures import counted
from pgrelay.kafka.cluster import Broker, Cluster, Overview
from pgrelay.kafka.errors import PROTOCOL_CURE, cure
from pgrelay.kafka.producer_options import GAPLESS
from pgrelay.kafka.sink import Sink

# An id that no relay uses. No transaction is initialized with it, so nobody is fenced.
_TRANSACTIONAL: Final = {"transactional.id": "pgrelay-check"}
_UNREACHABLE: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._RESOLVE})
_STATE_SUFFIX: Final = re.compile(r" \(after \d+ms in state .*\)$")
# Only an advertised address has the broker's id before the colon: `kafka:9092/1: Connect to ... failed`.
_ADVERTISED: Final = re.compile(r"(\w+://)?(?P<address>\S+)/(?P<id>\d+): Connect to ")


async def kafka_findings(config: SinkConfig, wanted: Sequence[WantedTopic]) -> list[Finding]:
    """`wanted` are the topics that a run writes to."""
    try:
        # A producer validates the options as in a run; the admin client validates less.
        await Sink(config, _TRANSACTIONAL if config.delivery == "exactly_once" else GAPLESS).close()
    except SetupError as refusal:
        return [refusal_finding(refusal, "librdkafka does not accept these options")]
    async with Cluster(config) as cluster:
        return security_findings(config.kafka) + await _findings(cluster, config, wanted)


def security_findings(options: Mapping[str, str]) -> list[Finding]:
    """Warn of SASL or TLS options that librdkafka ignores under security.protocol, and of unverified TLS."""
    protocol = _protocol(options)
    findings = []
    included = protocol.split("_")
    left_out = [part for part in ("sasl", "ssl") if part not in included]
    if unused := [name for name in options if name.partition(".")[0] in left_out]:
        meant = "SASL_SSL" if "sasl" in included or any(n.startswith("sasl.") for n in unused) else "SSL"
        what = f"{first_few(unused)} in sink.kafka without effect, since security.protocol is {protocol}"
        why = "librdkafka connects without it, so the brokers may not let it in, or others may listen"
        findings.append(warning(what, why, f"set security.protocol: {meant} in sink.kafka"))
    if "ssl" in protocol and options.get("enable.ssl.certificate.verification", "").lower() in FALSE:
        what = "sink.kafka does not verify the brokers' certificates"
        cure = "remove enable.ssl.certificate.verification, and set ssl.ca.location to their authority's file"
        findings.append(
            warning(what, "whoever is on the way can pose as a broker, and read every record", cure)
        )
    return findings


def _protocol(options: Mapping[str, str]) -> str:
    return options.get("security.protocol", "plaintext").lower()


async def _findings(cluster: Cluster, config: SinkConfig, wanted: Sequence[WantedTopic]) -> list[Finding]:
    try:
        overview = await cluster.overview()
    except KafkaException as failure:
        finding = kafka_unreachable(cluster.first_error, failure.args[0], config.kafka[BOOTSTRAP])
        return [replace(finding, why=mask_error(finding.why, config.kafka))]
    brokers = counted(len(overview.brokers), "broker")
    findings = [ok(f"Kafka answers at {config.kafka[BOOTSTRAP]}, by {_protocol(config.kafka)}: {brokers}")]
    broker, unreachable = await _brokers(cluster, overview)
    if unreachable:
        return [*findings, *unreachable]
    return findings + await topic_findings(cluster, config, wanted, overview, broker)


def kafka_unreachable(complaint: KafkaError | None, failure: KafkaError, bootstrap: str) -> Finding:
    """`complaint` is the error that librdkafka reported before `failure`."""
    if complaint is None:
        return error(f"Kafka does not answer at {bootstrap}", failure.str(), PROTOCOL_CURE)
    advertised = _ADVERTISED.match(complaint.str())
    if advertised:
        return broker_unreachable(int(advertised["id"]), advertised["address"])
    text = f"{complaint.name()} {complaint.str()}"
    return error(f"Kafka does not answer at {bootstrap}", _STATE_SUFFIX.sub("", complaint.str()), cure(text))


async def _brokers(cluster: Cluster, overview: Overview) -> tuple[Broker | None, list[Finding]]:
    """The strictest of the brokers that let us read their settings; a finding for each unreachable one."""
    answers = await asyncio.gather(
        *(cluster.broker(broker) for broker in overview.brokers), return_exceptions=True
    )
    unreachable: list[Finding] = []
    known: list[Broker] = []
    for (broker, address), answer in zip(overview.brokers.items(), answers, strict=True):
        if isinstance(answer, Broker):
            known.append(answer)
        elif not isinstance(answer, KafkaException):
            raise answer
        elif answer.args[0].code() in _UNREACHABLE:
            unreachable.append(broker_unreachable(broker, address))
    return min(known, key=lambda each: each.defaults.message_bytes, default=None), unreachable


def broker_unreachable(broker: int, address: str) -> Finding:
    return error(
        f"broker {broker} advertises {address}, but nothing answers there",
        "clients connect to the advertised addresses, whatever bootstrap.servers says",
        "start that broker if it is down; else correct its advertised.listeners, or make that address "
        "reachable from here",
    )
