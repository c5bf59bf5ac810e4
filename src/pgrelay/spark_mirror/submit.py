"""The application that `spark-submit` takes: `spark-submit ... submit.py --config mirror.yaml`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python searches a script's folder first, where our modules would shadow others of the same name.
    sys.path.remove(str(Path(__file__).parent))
    from pgrelay.cli import main

    sys.exit(main(["spark-mirror", *sys.argv[1:]]))
