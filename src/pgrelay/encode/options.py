"""What the operator chose about records, in the form that the pure rooms take it."""

from dataclasses import dataclass, field
from typing import Literal

from pgrelay.encode.selection import Selection
from pgrelay.encode.types import Encodings


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """`prefix` is source.name, `topic` the template of table topics, `version` our own.

    `routes`: pairs of a regular expression over `schema.table` and the template of the topic of its tables.
    """

    version: str
    prefix: str
    database: str
    systemid: str = ""
    topic: str = "{prefix}.{schema}.{table}"
    routes: tuple[tuple[str, str], ...] = ()
    format: Literal["json", "avro"] = "json"
    envelope: Literal["debezium", "flat"] = "debezium"
    key: bool = True
    tombstones: bool = True
    transactions: bool = False
    placeholder: bool = False
    headers: bool = False
    encodings: Encodings = field(default_factory=Encodings)
    selection: Selection = field(default_factory=Selection)
