"""The record in docs/avro.md: an independent reader reads its bytes as shown."""

import io
import json

import fastavro
from fastavro.types import Schema

from tests.docs.pages import blocks

_HEADER = b"\x00\x00\x00\x00\x02"  # the registry's wire format, schema 2


def test_the_bytes_read_back_as_the_record_shown() -> None:
    on_page = [block for block in blocks() if block.page == "docs/avro.md"]
    [value] = [bytes.fromhex(block.text) for block in on_page if block.language == "hex"]
    shown, written = [json.loads(block.text) for block in on_page if block.language == "json"]
    assert value.startswith(_HEADER)
    schema: Schema = fastavro.parse_schema(written)
    body = io.BytesIO(value.removeprefix(_HEADER))
    read = fastavro.schemaless_reader(body, schema, None)
    assert not body.read(), "bytes are left over"
    assert json.loads(json.dumps(read, default=str)) == shown
