"""What the Avro envelopes have in common: logical messages and their keys."""

from librt.strings import BytesWriter

from pgrelay.encode.avro.body import NULL, PRESENT, array, string, write_length
from pgrelay.encode.avro.names import utf8_safe
from pgrelay.encode.envelope import Envelope
from pgrelay.encode.plan import Collection
from pgrelay.encode.records import Unchanged


class AvroEnvelope(Envelope):
    def __init__(self) -> None:
        super().__init__()
        self.no_place = NULL

    def write_after_rows(self, writer: BytesWriter, unchanged: Unchanged) -> None:
        """Write what follows the rows, if any: the unchanged columns, and that nothing is truncated."""
        if unchanged is not None:
            writer.write(PRESENT + array(unchanged) + NULL if unchanged else b"\x00\x00")

    def message(self, writer: BytesWriter, collection: Collection, prefix: str, content: bytes) -> None:
        writer.write(collection.schema_header.value)
        writer.write(string(utf8_safe(prefix)))
        write_length(writer, len(content))
        writer.write(content)

    def message_key(self, collection: Collection, prefix: str) -> bytes:
        return collection.schema_header.key + string(utf8_safe(prefix))
