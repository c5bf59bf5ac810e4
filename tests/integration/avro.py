"""Records in Avro as a consumer reads them: with fastavro, by the schema id in each record."""

import io
import json
import urllib.request
from typing import Any

import fastavro
from fastavro.types import Schema

from pgrelay.embedded.registry import SchemaRegistry
from tests.integration.relays import Relay
from tests.integration.topics import Record, read_topic


class Reader:
    """Asks the registry once for each id."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._url = registry.url
        self._schemas: dict[int, Schema] = {}

    def read(self, body: bytes | None) -> Any:
        """Decode a key or value; None stays None."""
        if body is None:
            return None
        stream = io.BytesIO(body[5:])
        value = fastavro.schemaless_reader(stream, self.schema(schema_id(body)), None)
        assert not stream.read(), "bytes are left over"
        return value

    def schema(self, number: int) -> Schema:
        if number not in self._schemas:
            text = self._get(f"/schemas/ids/{number}")["schema"]
            self._schemas[number] = fastavro.parse_schema(json.loads(text))
        return self._schemas[number]

    def versions(self, subject: str) -> list[int]:
        """The versions that a subject has."""
        versions: list[int] = self._get(f"/subjects/{subject}/versions")
        return versions

    def records(self, relay: Relay, topic: str, count: int = 0) -> list[tuple[Any, Any]]:
        """Key and value of each record of the topic, at least `count`."""
        found = read_topic(relay.kafka.bootstrap, topic, count)
        return [(self.read(record.key), self.read(record.value)) for record in found]

    def rows(self, relay: Relay, table: str, count: int = 0) -> list[Any]:
        """`after` of each record of a table's topic."""
        values = [value for _, value in self.records(relay, relay.topic(table), count)]
        return [value and value["after"] for value in values]

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._url}{path}", timeout=10) as answer:
            return json.load(answer)


def schema_id(body: bytes | None) -> int:
    assert body is not None
    assert body[0] == 0, "not in the registry's wire format"
    return int.from_bytes(body[1:5], "big")


def value_ids(records: list[Record]) -> list[int]:
    """The schema ids of the values."""
    return [schema_id(record.value) for record in records if record.value is not None]
