"""For Avro records: whether the schema registry answers, and which schemas of our topics it already has."""

from collections.abc import Mapping, Sequence
from typing import Final

from pgrelay.check.findings import Finding, error, ok, refused, some, unexamined, warning
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
            return await _schema_findings(registry, records, wanted) + protection(records.schema_registry)
        finally:
            await registry.close()
    except SetupError as refusal:
        return [refused(refusal, "a run does not start")]
    except RegistryUnavailable as away:
        return [refused(away, "no row is relayed until the registry has its schema")]


async def _schema_findings(
    registry: Registry, records: Records, wanted: Sequence[WantedTopic]
) -> list[Finding]:
    """Raises RegistryUnavailable."""
    ours = [topic.name for topic in wanted if topic.of in _ENVELOPED]
    try:
        refusing = await registry.incompatible_subjects(ours, records.envelope)
    except SetupError as refusal:
        return [unexamined("the schemas", refusal)]
    url = mask_url(records.schema_registry["url"])
    return [ok(f"the schema registry answers at {url}"), *another_writers(refusing)]


def protection(options: Mapping[str, str]) -> list[Finding]:
    """Warn of credentials that others may read on their way."""
    of = "records.schema_registry"
    if options.get("ssl.ca.location") == "false":
        what, cure = "the schema registry's certificate is not verified", "set ssl.ca.location"
    elif any(url.strip().startswith("http://") for url in options["url"].split(",")) and _signs_in(options):
        what, cure = "credentials go to the schema registry without TLS", "use its https:// address in url"
    else:
        return []
    return [warning(what, "whoever is on the way can read them, and register schemas", f"{cure} in {of}")]


def _signs_in(options: Mapping[str, str]) -> bool:
    # What belongs to our certificate stays here.
    ours = (name for name in options if not name.startswith("ssl."))
    return any(is_secret(name) for name in ours) or "@" in options["url"]


def another_writers(subjects: Sequence[str]) -> list[Finding]:
    """For example, if Debezium wrote these topics before."""
    if not subjects:
        return []
    return [
        error(
            f"{counted(len(subjects), 'subject')} with another writer's schema: {some(subjects)}",
            "their compatibility level makes the registry refuse ours, and a run stops at the first row",
            "set another records.prefix or records.routes; or compatibility NONE for these subjects",
        )
    ]
