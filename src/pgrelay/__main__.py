"""The program: `pgrelay`, the script that pip installs, and `python -m pgrelay`."""

import sys

from pgrelay.early_stop import SignalRecorder


def main() -> int:
    """Run the command that the process was started with; returns its exit code."""
    # Ahead of the import of the commands, which takes a while: a SIGTERM during it must be a clean stop too.
    SignalRecorder()
    from pgrelay.cli import main as command

    return command()


if __name__ == "__main__":
    sys.exit(main())
