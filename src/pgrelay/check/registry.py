"""Whether the schema registry answers, where records are Avro."""

from collections.abc import Mapping

from pgrelay.check.findings import Finding, error, ok, refused
from pgrelay.config.secrets import mask_options
from pgrelay.errors import RegistryUnavailable, SetupError
from pgrelay.registry import Registry


async def registry_findings(options: Mapping[str, str]) -> list[Finding]:
    """`options` are `records.schema_registry`, which has a url."""
    try:
        registry = Registry(options)
    except SetupError as refusal:
        return [refused(refusal, "a run does not start")]
    try:
        await registry.connect()
    except RegistryUnavailable as away:
        return [
            error(
                str(away),
                "no row is relayed before the registry knows its schema",
                "start the registry, or correct url in records.schema_registry",
            )
        ]
    finally:
        await registry.close()
    return [ok(f"the schema registry answers at {mask_options({'url': options['url']})['url']}")]
