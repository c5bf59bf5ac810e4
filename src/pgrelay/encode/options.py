"""What the operator chose about records, in the form that the pure rooms take it."""

from dataclasses import dataclass, field

from pgrelay.encode.types import Encodings


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """`prefix` is source.name, `topic` the template of table topics, `version` our own."""

    version: str
    prefix: str
    database: str
    topic: str = "{prefix}.{schema}.{table}"
    key: bool = True
    tombstones: bool = True
    placeholder: bool = False
    headers: bool = False
    encodings: Encodings = field(default_factory=Encodings)
