"""What `bench.guard` runs under callgrind: each format and shape encoded once, between two marks.

callgrind writes down what it has counted so far, and begins at 0 again, whenever the function `MARK` is
called. So the work between two marks has a figure of its own, without start-up, imports and making frames.
"""

import argparse
import gc
import os
import tempfile
from pathlib import Path

from bench import pure
from pgrelay.encode import encoder

# Of the C library, so that it keeps its name in every build of Python; and nothing else here calls it.
MARK = "getsid"
WORK = tuple((format, shape) for format in pure.FORMATS for shape in ("insert", "update", "delete"))

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
            # So that the garbage collector finds the same at each mark, as the relay has it after its start.
            gc.collect()
            gc.freeze()
            _mark()
            records = pure.encode(work, Path(folder), format)
            _mark()
            if records < rows:
                raise SystemExit(f"{records} records came of {rows} rows, {format} {shape}")


if __name__ == "__main__":
    main()
