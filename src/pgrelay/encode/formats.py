"""The classes that write each format and envelope, chosen once."""

from pgrelay.encode.boundaries import Boundaries
from pgrelay.encode.debezium import DebeziumJson
from pgrelay.encode.envelope import Envelope
from pgrelay.encode.flat import FlatJson
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.rows import RowWriter


def envelope_of(options: RecordOptions) -> Envelope:
    return DebeziumJson(options) if options.envelope == "debezium" else FlatJson(options)


def row_writer(options: RecordOptions) -> RowWriter:
    return RowWriter(options.placeholder)


def boundaries_of(options: RecordOptions, topic: str) -> Boundaries | None:
    """What writes the transaction topic; None where there is none."""
    return Boundaries(topic) if options.transactions else None
