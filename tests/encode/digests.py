"""Digests of the records of one stream, for each choice of options; `digests.json` holds what must come.

The same file is checked interpreted and compiled, so the two give the same bytes. After a change of what
records look like, `python -m tests.encode.digests` writes it anew.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.events import Event
from pgrelay.assembly.prepared import PreparedStore
from pgrelay.assembly.spool import Spool
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.encodings import Encodings
from pgrelay.encode.needs import Announcement, FactsNeeded
from pgrelay.encode.options import DeadLetterOptions, Limits
from pgrelay.encode.records import Segment
from pgrelay.encode.selection import Selection
from tests.assembly.transactions import batches
from tests.encode.decoded_avro import SchemaNumbers
from tests.encode.encoding import NOW, OPTIONS, encoder_of
from tests.encode.stream import FACTS, Stream

FILE: Final = Path(__file__).with_name("digests.json")
SEED: Final = 7
# So small that open transactions are spilled, and replayed in parts.
_MEMORY, _SLICE = 4_000, 2_000

_FORMATS: Final[tuple[Literal["json", "avro"], ...]] = ("json", "avro")
_ENVELOPES: Final[tuple[Literal["debezium", "flat"], ...]] = ("debezium", "flat")
_HIDDEN: Final = Selection(
    exclude=(r"public\.tiny",),
    drop=(r".*\.price",),
    mask=(r".*\.token",),
    hash=(r".*\.name", r".*\.id"),
    hash_key=b"k",
)
_CHOICES: Final = {
    "as they come": OPTIONS,
    "all that adds": replace(OPTIONS, transactions=True, headers=True, placeholder=True),
    "other encodings": replace(
        OPTIONS, encodings=Encodings("precise", "debezium", "hex", "inline", validate_utf8=True)
    ),
    "doubles": replace(OPTIONS, encodings=Encodings("double")),
    "columns hidden": replace(OPTIONS, selection=_HIDDEN),
    "no key, no tombstone": replace(OPTIONS, key=False, tombstones=False),
    "one topic": OPTIONS,
    "dead letters": replace(
        OPTIONS, dead_letters=DeadLetterOptions(Limits(max_bytes=1_500, key_required=True)), transactions=True
    ),
}
_ROUTES: Final = {"one topic": [(r"public\.(tiny|orders)", "{prefix}.both")]}
# By the name of the digest: the options and the routes.
CHOICES: Final = {
    f"{format}, {envelope}, {name}": (
        replace(options, format=format, envelope=envelope),
        _ROUTES.get(name, []),
    )
    for format in _FORMATS
    for envelope in _ENVELOPES
    for name, options in _CHOICES.items()
}


def digest(name: str, binary: bool) -> str:
    """SHA-256 over the encoder's output: each record, announcement and end of a transaction."""
    hasher = hashlib.sha256()
    options, routes = CHOICES[name]
    encoder, numbers = encoder_of(options, routes=routes), SchemaNumbers()
    for events in _events(Stream(SEED, binary).fill()):
        encoder.feed(events)
        for part in _output(encoder, numbers):
            hasher.update(ascii(part).encode() + b"\n")
    return hasher.hexdigest()


def _events(frames: list[bytes]) -> Iterator[list[Event]]:
    with TemporaryDirectory() as folder:
        spool = Spool(Path(folder))
        assembler = Assembler(spool, PreparedStore(spool), _MEMORY)
        yield from batches(assembler, frames, _SLICE)
        assembler.close()


def _output(encoder: Encoder, numbers: SchemaNumbers) -> Iterator[object]:
    while encoder.pending or encoder.need is not None:
        need = encoder.need
        if isinstance(need, FactsNeeded):
            encoder.provide_facts(FACTS)
        elif need is not None:
            if isinstance(need, Announcement):
                yield need.record
            yield need.schemas
            encoder.confirm_topic(None if need.schemas is None else numbers.register(need.schemas))
        for out in encoder.encode(NOW):
            if isinstance(out, Segment):
                yield from out.records
                # Where a slice ends within a transaction depends on the length of the frames.
                if out.end_lsn is not None:
                    yield out.end_lsn
            else:
                yield out.lsn


def main() -> None:
    FILE.write_text(json.dumps({name: digest(name, False) for name in CHOICES}, indent=2) + "\n")


if __name__ == "__main__":
    main()
