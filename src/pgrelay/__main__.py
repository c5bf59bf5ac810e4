"""The program: `pgrelay`, the script that pip installs, and `python -m pgrelay`."""

import sys

from pgrelay.early_stop import Note


def main() -> int:
    """Run the command that the process was started with; returns its exit code."""
    # Before the commands are imported, which takes a while: a SIGTERM meanwhile must be a clean stop, too.
    Note()
    from pgrelay.cli import main as command

    return command()


if __name__ == "__main__":
    sys.exit(main())
