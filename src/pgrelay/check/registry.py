"""For Avro records: whether the schema registry answers, and which schemas of our topics it already has."""

from collections.abc import Mapping, Sequence
from typing import Final

from pgrelay.check.findings import Finding, error, first_few, not_checked, ok, refusal_finding, warning
from pgrelay.check.topics import WantedTopic
from pgrelay.config import Records
from pgrelay.config.secrets import is_secret, mask_url
from pgrelay.errors import RegistryUnavailable, SetupError
from pgrelay.figures import counted
from pgrelay.kafka.registry import Registry

# The topics whose values have the envelope.
_ENVELOPED: Final = ("rows", "messages")


async def registry_findings(records: Records, wanted: Sequence[WantedTopic]) -> list[Finding]:
    """`records.schema_registry` has a url; `wanted` are a run's topics."""
    try:
        registry = Registry(records.schema_registry)
        try:
            await registry.connect()
            return await _schema_findings(registry, records, wanted) + security_findings(
                records.schema_registry
            )
        finally:
            await registry.close()
    except SetupError as refusal:
        return [refusal_finding(refusal, "a run does not start")]
    except RegistryUnavailable as away:
        return [refusal_finding(away, "no row is relayed until the registry has its schema")]


async def _schema_findings(
    registry: Registry, records: Records, wanted: Sequence[WantedTopic]
) -> list[Finding]:
    """Raises RegistryUnavailable."""
    written = [topic.name for topic in wanted if topic.kind in _ENVELOPED]
    try:
        refusing = await registry.incompatible_subjects(written, records.envelope)
    except SetupError as refusal:
        return [not_checked("the schemas", refusal)]
    url = mask_url(records.schema_registry["url"])
    return [ok(f"the schema registry answers at {url}"), *foreign_schemas(refusing)]


def security_findings(options: Mapping[str, str]) -> list[Finding]:
    """Warn of credentials that others may read on their way."""
    if options.get("ssl.ca.location") == "false":
        what, cure = "the schema registry's certificate is not verified", "set ssl.ca.location"
    elif any(url.strip().startswith("http://") for url in options["url"].split(",")) and _sends_credentials(
        options
    ):
        what, cure = "credentials go to the schema registry without TLS", "use its https:// address in url"
    else:
        return []
    return [
        warning(
            what,
            "whoever is on the way can read them, and register schemas",
            f"{cure} in records.schema_registry",
        )
    ]


def _sends_credentials(options: Mapping[str, str]) -> bool:
    # Options of our own certificate are not sent.
    written = (name for name in options if not name.startswith("ssl."))
    return any(is_secret(name) for name in written) or "@" in options["url"]


def foreign_schemas(subjects: Sequence[str]) -> list[Finding]:
    """For example, if Debezium wrote these topics before."""
    if not subjects:
        return []
    return [
        error(
            f"{counted(len(subjects), 'subject')} with another writer's schema: {first_few(subjects)}",
            "their compatibility level makes the registry refuse ours, and a run stops at the first row",
            "set another records.prefix or records.routes; or compatibility NONE for these subjects",
        )
    ]
