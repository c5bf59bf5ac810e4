"""The program that `bench.guard` runs under callgrind: encode each format and shape once, between two marks.

callgrind writes out its count, and resets it to 0, whenever the function `MARK` is called. So the work
between two marks has its own figure, without start-up, imports and the creation of frames.
"""

import argparse
import gc
import os
import tempfile
from pathlib import Path

from bench import pure
from pgrelay.encode import encoder

# A function of the C library has the same name in every build of Python; nothing else here calls this one.
MARK = "getsid"
SHAPES = ("insert", "update", "delete", "document", "arrays")
WORK = tuple((format, shape) for format in pure.FORMATS for shape in SHAPES)

_WARM_UP = 1_000


def _mark() -> None:
    os.getsid(0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.counted", description=__doc__)
    parser.add_argument("rows", type=int, help="of each")
    rows = parser.parse_args().rows
    if encoder.__file__.endswith(".py"):
        raise SystemExit(f"{encoder.__file__} is not compiled")
    with tempfile.TemporaryDirectory() as folder:
        for format, shape in WORK:
            pure.encode(pure.transactions(shape, _WARM_UP), Path(folder), format)
            work = pure.transactions(shape, rows)
            # Put the garbage collector into the same state at each mark, that of a relay after its start.
            gc.collect()
            gc.freeze()
            _mark()
            records = pure.encode(work, Path(folder), format)
            _mark()
            if records < rows:
                raise SystemExit(f"{records} records from {rows} rows, {format} {shape}")


if __name__ == "__main__":
    main()
