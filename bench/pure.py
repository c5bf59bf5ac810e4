"""The pure half alone, from frames to records: `python -m bench.pure`, both forms, one process each."""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from struct import pack
from typing import Literal

from bench.builds import FORMS, Form, environment
from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.prepared import PreparedStore
from pgrelay.assembly.spool import Spool
from pgrelay.encode.avro.schema import SchemaIds
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.needs import FactsNeeded
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import RelationFacts
from pgrelay.encode.records import Segment
from pgrelay.encode.topics import Topics

Format = Literal["json", "avro"]
FORMATS: tuple[Format, ...] = ("json", "avro")

_PER_TRANSACTION = 500
_REPEATS = 3

# Type OID and value of each column, the key first.
_ORDER = (
    (20, b"123456"),
    (23, b"42"),
    (25, b"Jane Q. Public"),
    (25, b"jane.public@example.com"),
    (1700, b"1234.50"),
    (23, b"3"),
    (16, b"t"),
    (1184, b"2026-11-20 14:54:02.343135+00"),
    (1082, b"2026-11-20"),
    (2950, b"8f14e45f-ceea-467f-a9a1-5e6c0b6d1c11"),
    (25, b"a somewhat longer note with text in it, to fill"),
)
# The type modifier of numeric(12,2), which is a decimal in Avro.
_MODIFIERS = {1700: (12 << 16 | 2) + 4}
_WIDE = (_ORDER[0], *(((23, b"4711"), (25, b"text 17 of 4711"), (1700, b"1234.50")) * 33))
# Text that JSON has to escape, as every document does.
_DOCUMENT = (
    _ORDER[0],
    (3802, b'{"id": 4711, "name": "Jane Q. Public", "tags": ["new", "paid"], "address": {"city": "Bern"}}'),
    (25, b'Please leave it "at the back door".\nThank you!'),
)
# Arrays as applications have them: tags, of which some have to be quoted, and numbers.
_ARRAYS = (
    _ORDER[0],
    (1009, b'{new,paid,"at the back door"}'),
    (1007, b"{1,20,300,4711,47110}"),
)
# The same row with source.binary: true; the numeric is two digits in base 10,000.
_BINARY = (
    (20, pack("!q", 123456)),
    (23, pack("!i", 42)),
    *_ORDER[2:4],
    (1700, pack("!hhHHhh", 2, 0, 0, 2, 1234, 5000)),
    (23, pack("!i", 3)),
    (16, b"\1"),
    (1184, pack("!q", 848_501_642_343_135)),
    (1082, pack("!i", 9_820)),
    (2950, bytes.fromhex("8f14e45fceea467fa9a15e6c0b6d1c11")),
    _ORDER[10],
)
_Columns = tuple[tuple[int, bytes | None], ...]


def _tuple(columns: _Columns, kind: bytes = b"t") -> bytes:
    values = (b"n" if value is None else kind + pack("!i", len(value)) + value for _, value in columns)
    return pack("!h", len(columns)) + b"".join(values)


_KEY = (_ORDER[0], *((oid, None) for oid, _ in _ORDER[1:]))
# The columns, and the change's bytes before and after its relation's OID.
SHAPES: dict[str, tuple[_Columns, bytes, bytes]] = {
    "insert": (_ORDER, b"I", b"N" + _tuple(_ORDER)),
    "update": (
        (*_ORDER, (25, None)),
        b"U",
        b"N" + pack("!h", 12) + _tuple(_ORDER)[2:] + b"u",
    ),
    "binary": (_ORDER, b"I", b"N" + _tuple(_BINARY, b"b")),
    "delete": (_ORDER, b"D", b"K" + _tuple(_KEY)),
    "wide": (_WIDE, b"I", b"N" + _tuple(_WIDE)),
    "tiny": (_ORDER[:2], b"I", b"N" + _tuple(_ORDER[:2])),
    "document": (_DOCUMENT, b"I", b"N" + _tuple(_DOCUMENT)),
    "arrays": (_ARRAYS, b"I", b"N" + _tuple(_ARRAYS)),
}


def _frame(message: bytes, lsn: int) -> bytes:
    return b"w" + pack("!QQq", lsn, lsn, 0) + message


def _relation(columns: _Columns) -> bytes:
    described = (
        pack("!B", number == 0) + b"column_%d\0" % number + pack("!Ii", oid, _MODIFIERS.get(oid, -1))
        for number, (oid, _) in enumerate(columns)
    )
    return b"R" + pack("!I", 7) + b"public\0orders\0d" + pack("!h", len(columns)) + b"".join(described)


def transactions(shape: str, rows: int) -> list[list[bytes]]:
    """The frames of each transaction; the first also contains that of the relation."""
    columns, tag, body = SHAPES[shape]
    change = tag + pack("!I", 7) + body
    made: list[list[bytes]] = []
    for number in range(rows // _PER_TRANSACTION):
        lsn = (number + 1) * 1_000_000
        begin = b"B" + pack("!QqI", lsn + 900_000, 0, number + 1)
        commit = b"C\0" + pack("!QQq", lsn + 900_000, lsn + 900_001, 0)
        changes = [_frame(change, lsn + 300 * row) for row in range(_PER_TRANSACTION)]
        made.append([_frame(begin, lsn), *changes, _frame(commit, lsn + 900_001)])
    made[0].insert(1, _frame(_relation(columns), 0))
    return made


def encode(work: list[list[bytes]], spool_folder: Path, format: Format = "json") -> int:
    """Encode as the relay does; return the number of records."""
    spool = Spool(spool_folder)
    assembler = Assembler(spool, PreparedStore(spool), 64 << 20)
    options = RecordOptions("0", "app", "shop", format=format)
    encoder = Encoder(options, Topics("app", "{prefix}.{schema}.{table}"))
    records = 0
    for frames in work:
        assembler.receive_all(frames, 0)
        encoder.feed(assembler.take_events())
        while encoder.pending or encoder.need is not None:
            records += sum(len(out.records) for out in encoder.encode(1) if isinstance(out, Segment))
            if isinstance(encoder.need, FactsNeeded):
                encoder.provide_facts(RelationFacts())
            elif encoder.need is not None:
                encoder.confirm_topic(SchemaIds(1, 2) if format == "avro" else None)
    return records


def us_a_row(shape: str, rows: int, format: Format = "json") -> float:
    """CPU per row, of the best of a few runs."""
    spent: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(_REPEATS):
            work = transactions(shape, rows)
            start = time.process_time()
            encode(work, Path(folder), format)
            spent.append(time.process_time() - start)
    return min(spent) / rows * 1e6


def in_form(form: Form, shapes: list[str], rows: int, format: Format = "json") -> dict[str, float]:
    """CPU per row of each shape, in a process that imports that form."""
    here = [sys.executable, "-m", "bench.pure", "--here", "--rows", str(rows)]
    here += ["--formats", format, "--shapes", *shapes]
    root = Path(__file__).parents[1]
    child = subprocess.run(here, env=environment(form), cwd=root, check=True, capture_output=True, text=True)
    return {shape: float(us) for shape, us in (line.split() for line in child.stdout.splitlines())}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pure", description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000, help="of each shape (%(default)s)")
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=list(FORMATS))
    parser.add_argument("--here", action="store_true", help="only the form that this Python imports")
    options = parser.parse_args()
    if options.here:
        (format,) = options.formats
        for shape in options.shapes:
            print(shape, us_a_row(shape, options.rows, format))
        return
    print(f"{'CPU us a row':<16}{'compiled':>12}{'interpreted':>14}")
    for format in options.formats:
        compiled, interpreted = (in_form(form, options.shapes, options.rows, format) for form in FORMS)
        for shape in options.shapes:
            print(f"{shape + ', ' + format:<16}{compiled[shape]:>12.2f}{interpreted[shape]:>14.2f}")


if __name__ == "__main__":
    main()
