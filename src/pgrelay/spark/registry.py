"""Writer schemas out of a schema registry, by Confluent's client, when a plan is made and never for a row."""

from collections.abc import Iterable, Mapping
from typing import Any

from pgrelay.errors import SetupError


class Registry:
    """One registry: its URL, or the options of Confluent's client. What it once told is kept."""

    def __init__(self, where: str | Mapping[str, Any]) -> None:
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
        except ImportError as error:
            raise SetupError(
                f"reading Avro needs {error.name}, which is missing: pip install 'pgrelay[avro]'"
            ) from error
        options = {"url": where} if isinstance(where, str) else dict(where)
        self._client = SchemaRegistryClient(options)
        self._texts: dict[int, str] = {}

    def of_topic(self, topic: str) -> dict[int, str]:
        """The schemas of a topic's values in all versions, as Avro's JSON, by their ids."""
        subject = f"{topic}-value"
        found = [self._client.get_version(subject, number) for number in self._client.get_versions(subject)]
        for version in found:
            if version.schema_id is not None and version.schema is not None:
                self._texts[version.schema_id] = str(version.schema.schema_str)
        return {version.schema_id: self._texts[version.schema_id] for version in found if version.schema_id}

    def latest(self, topic: str) -> tuple[str | None, str]:
        """The last schemas of a topic's keys (None where they have none) and values, as Avro's JSON."""
        keyed = f"{topic}-key" in self._client.get_subjects()
        key = self._text(f"{topic}-key") if keyed else None
        return key, self._text(f"{topic}-value")

    def _text(self, subject: str) -> str:
        schema = self._client.get_latest_version(subject).schema
        assert schema is not None
        return str(schema.schema_str)

    def of_ids(self, ids: Iterable[int]) -> dict[int, str]:
        """The schemas with these ids. Raises SchemaRegistryError where the registry does not have one."""
        return {number: self._of_id(number) for number in ids}

    def _of_id(self, number: int) -> str:
        if number not in self._texts:
            self._texts[number] = str(self._client.get_schema(number).schema_str)
        return self._texts[number]
