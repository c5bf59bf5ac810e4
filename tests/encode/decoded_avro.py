"""Avro records read back by fastavro, an independent library, by the schema id that they carry."""

import io
import json
from dataclasses import dataclass, field
from typing import Any, Final

import fastavro
from fastavro.types import Schema

from pgrelay.assembly.events import Event
from pgrelay.encode.avro.schema import SchemaIds, Schemas
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.needs import FactsNeeded
from pgrelay.encode.plan import RelationFacts
from pgrelay.encode.records import Record, Segment
from tests.encode.encoding import NO_FACTS, NOW, Written


@dataclass
class SchemaNumbers:
    """A registry in memory: each schema text has one number, from 1 on."""

    texts: list[str] = field(default_factory=list)
    subjects: list[tuple[str, str]] = field(default_factory=list)

    def register(self, schemas: Schemas) -> SchemaIds:
        key = None if schemas.key is None else self._number(f"{schemas.topic}-key", schemas.key)
        return SchemaIds(key, self._number(f"{schemas.topic}-value", schemas.value))

    def _number(self, subject: str, text: str) -> int:
        self.subjects.append((subject, text))
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1

    def read(self, body: bytes | None) -> Any:
        """A key or value; None for none."""
        if body is None:
            return None
        assert body[0] == 0
        schema = json.loads(self.texts[int.from_bytes(body[1:5], "big") - 1])
        return whole_value(schema, body[5:])

    def written(self, record: Record) -> Written:
        topic, key, value, headers, partition = record
        values = {name: value.encode() if isinstance(value, str) else value for name, value in headers or []}
        return Written(topic, self.read(key), self.read(value), values, partition)


NUMBERS: Final = SchemaNumbers()


def whole_value(schema: Schema, body: bytes) -> Any:
    """The value of a body that holds nothing else."""
    stream = io.BytesIO(body)
    value = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)
    assert stream.read() == b"", "bytes are left over"
    return value


def avro_records(
    encoder: Encoder, events: list[Event], facts: RelationFacts = NO_FACTS, numbers: SchemaNumbers = NUMBERS
) -> list[Written]:
    """The records of the events, with every need met."""
    found: list[Segment] = []
    encoder.feed(events)
    while True:
        found += [it for it in encoder.encode(NOW) if isinstance(it, Segment)]
        if encoder.need is None:
            return [numbers.written(record) for segment in found for record in segment.records]
        if isinstance(encoder.need, FactsNeeded):
            encoder.provide_facts(facts)
        else:
            schemas = encoder.need.schemas
            encoder.confirm_topic(None if schemas is None else numbers.register(schemas))
