"""The commands. No logic lives here: they load the configuration, call the room that does the work, and turn
its results into text on stdout and its errors into exit codes."""

import argparse
import asyncio
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from pgrelay import __version__, early_stop
from pgrelay.errors import GapError, PgrelayError, RecordError, SetupError, exit_code
from pgrelay.figures import counted
from pgrelay.lsn import format_lsn, parse_lsn
from pgrelay.standard_streams import complain, end, open_closed, tell, while_read
from pgrelay.usage import EPILOG, EXAMPLE, MORE

if TYPE_CHECKING:
    from pgrelay.check.findings import Finding

_COLOURS: Final = {"ok": "32", "warning": "33", "error": "1;31"}

_BUG: Final = "stopped by a bug in pgrelay; please report it with the traceback"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (`sys.argv`'s where None) and return the process's exit code.

    argparse itself ends the process on --help, --version and wrong usage.
    """
    open_closed()
    try:
        options = _parser().parse_args(arguments)
        command: Callable[[argparse.Namespace], int] = options.command
        note = early_stop.noted()
        if note is not None and command not in _STOP_CLEANLY:
            note.give_back()
            if note.number:
                return 128 + note.number
        return command(options)
    except PgrelayError as error:
        for line in str(error).splitlines():
            complain(f"pgrelay: {line}")
        return exit_code(error)
    except KeyboardInterrupt:
        return 130
    except Exception:
        complain(f"{traceback.format_exc()}pgrelay: {_BUG}")
        return 1
    finally:
        end()


def _run(options: argparse.Namespace) -> int:
    import structlog

    from pgrelay import log
    from pgrelay.config import load

    config = load(options.config)
    log.configure(config.log.level)
    # After the configuration, so that its mistakes are told without waiting for the clients to load.
    from pgrelay.check.advice import advise
    from pgrelay.relay import run

    logger = structlog.get_logger()
    try:
        asyncio.run(run(config, advise))
    except PgrelayError as error:
        # Through the log, where everything else about this run is read.
        logger.error(str(error), exit_code=exit_code(error), **_way_past(error, options.config))
        return exit_code(error)
    except Exception:
        logger.exception(_BUG, exit_code=1)
        return 1
    return 0


def _way_past(error: PgrelayError, file: str) -> dict[str, str]:
    """The command that gives up what can't be relayed: one transaction, or all since a gap."""
    if isinstance(error, GapError):
        return {"to_begin_anew": f"pgrelay reset --config {file}"}
    if isinstance(error, RecordError) and error.commit_lsn:
        return {"to_skip": f"pgrelay skip --config {file} --lsn {format_lsn(error.commit_lsn)}"}
    return {}


def _skip(options: argparse.Namespace) -> int:
    from pgrelay import log
    from pgrelay.config import load

    config = load(options.config)
    log.configure(config.log.level)
    from pgrelay.relay.skip import skip

    told = asyncio.run(skip(config, options.lsn))
    tell(told)
    return 0


def _reset(options: argparse.Namespace) -> int:
    from pgrelay import log
    from pgrelay.config import load

    config = load(options.config)
    log.configure("warning")
    from pgrelay.relay.reset import reset

    told = asyncio.run(reset(config, keep_slot=options.keep_slot))
    tell(told)
    return 0


def _check(options: argparse.Namespace) -> int:
    from pgrelay import log
    from pgrelay.config import load

    try:
        config = load(options.config)
    except SetupError as mistakes:
        if options.json:
            tell(_mistakes_as_json(mistakes))
        raise
    log.configure("warning")
    from pgrelay.check import check

    findings: Sequence[Finding] = asyncio.run(check(config))
    tell(_as_json(findings) if options.json else _as_text(findings, _colours_wanted()))
    if any(finding.gap for finding in findings):
        return GapError.exit_code
    return SetupError.exit_code if any(finding.level == "error" for finding in findings) else 0


def _mistakes_as_json(mistakes: SetupError) -> str:
    """A finding for each line, which is a mistake in the configuration."""
    from pgrelay.check.findings import refused

    why = f"nothing begins with it: exit code {SetupError.exit_code}"
    return _as_json([refused(SetupError(line), why) for line in str(mistakes).splitlines()])


def _status(options: argparse.Namespace) -> int:
    from pgrelay.config import load
    from pgrelay.status.client import ask
    from pgrelay.status.snapshot import Snapshot
    from pgrelay.status.terminal import render

    document = ask(load(options.config), options.config)
    if options.json:
        tell(json.dumps(document, indent=2))
    else:
        tell(render(Snapshot.from_json(document), _colours_wanted()))
    return 0


def _spark_mirror(options: argparse.Namespace) -> int:
    _need_pyspark("spark-mirror")
    from pgrelay import log
    from pgrelay.spark_mirror.config import load

    config = load(options.config)
    log.configure(config.log.level)
    from pgrelay.spark_mirror.run import run

    run(config, once=options.once)
    return 0


def _need_pyspark(command: str) -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise SetupError(f"{command} needs PySpark, which is not installed: pip install 'pgrelay[spark]'")


def _demo(options: argparse.Namespace) -> int:
    if options.spark:
        _need_pyspark("demo --spark")
    from pgrelay.demo import demo

    with while_read():
        return demo(options.rows, options.keep, options.spark)
    return 0


def _plan(options: argparse.Namespace) -> int:
    from pgrelay.plan import plan

    told = asyncio.run(
        plan(Path(options.config), options.shards, options.output, apart=options.ignore_foreign_keys)
    )
    tell(told)
    return 0


def _schema(options: argparse.Namespace) -> int:
    from pgrelay.config import Config

    tell(json.dumps(Config.model_json_schema(), indent=2))
    return 0


def _as_json(findings: "Sequence[Finding]") -> str:
    names = ("level", "what", "why", "cure")
    return json.dumps([{name: getattr(finding, name) for name in names} for finding in findings], indent=2)


def _colours_wanted() -> bool:
    """For a person who did not say no (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _as_text(findings: "Sequence[Finding]", coloured: bool) -> str:
    """Each finding on a line, why and cure below it; the count of errors and warnings last."""
    lines: list[str] = []
    for finding in findings:
        level = f"{finding.level:<8}"
        if coloured:
            level = f"\x1b[{_COLOURS[finding.level]}m{level}\x1b[0m"
        lines.append(f"{level} {finding.what}")
        if finding.level != "ok":
            lines += [f"{'':8} why: {finding.why}", f"{'':8} fix: {finding.cure}"]
    levels = [finding.level for finding in findings]
    counts = f"{counted(levels.count('error'), 'error')}, {counted(levels.count('warning'), 'warning')}"
    return "\n".join([*lines, counts])


class _Parser(argparse.ArgumentParser):
    """Tells wrong usage in one line, which ends in an `example` of the right one."""

    example = EXAMPLE

    def error(self, message: str) -> NoReturn:
        self.exit(SetupError.exit_code, f"{self.prog}: {message}; for example: {self.example}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="pgrelay",
        description="Relay every committed row change of a Postgres logical replication slot to Kafka.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    for name, command, does, example in _COMMANDS:
        sub = commands.add_parser(
            name,
            help=does,
            description=f"{does[0].upper()}{does[1:]}.\n\n{MORE.get(name, '')}".rstrip(),
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.example = example
        sub.set_defaults(command=command)
        _add_options(name, sub)
    return parser


def _version() -> str:
    spec = importlib.util.find_spec("pgrelay.encode.rows")
    source = spec is None or str(spec.origin).endswith(".py")
    return f"pgrelay {__version__} ({'interpreted' if source else 'compiled'})"


def _add_options(name: str, parser: argparse.ArgumentParser) -> None:
    if name in ("run", "skip", "reset", "check", "status", "plan", "spark-mirror"):
        parser.add_argument("--config", metavar="FILE", required=True, help="the configuration, YAML")
    if name == "skip":
        parser.add_argument(
            "--lsn",
            type=_lsn,
            metavar="X/Y",
            required=True,
            help="where the transaction commits, as the log tells when a run ends with 4",
        )
    if name == "reset":
        parser.add_argument(
            "--keep-slot",
            action="store_true",
            help="forget the position alone: the next run goes on where the slot stands",
        )
    if name == "check":
        parser.add_argument("--json", action="store_true", help="the findings as a JSON array")
    if name == "status":
        parser.add_argument("--json", action="store_true", help="as the relay's /status answers it")
    if name == "plan":
        parser.add_argument("--shards", type=_positive, metavar="N", required=True, help="how many relays")
        parser.add_argument(
            "--output", type=Path, metavar="DIR", help="where the files go, made at need; else beside FILE"
        )
        parser.add_argument(
            "--ignore-foreign-keys", action="store_true", help="let tables go apart that reference each other"
        )
    if name == "spark-mirror":
        parser.add_argument(
            "--once", action="store_true", help="take in what the topics hold by now, and end"
        )
    if name == "demo":
        parser.add_argument(
            "--rows", type=_positive, metavar="N", help="end after N row changes were shown; else at Ctrl-C"
        )
        parser.add_argument(
            "--keep", action="store_true", help="leave the servers up, and tell how to connect"
        )
        parser.add_argument(
            "--spark", action="store_true", help="mirror the tables to a lake too, and show both"
        )


def _lsn(text: str) -> int:
    try:
        return parse_lsn(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no LSN; it looks like 16/B374D848") from None


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 1 or more")
    return int(text)


# They look themselves at what was noted ahead of them.
_STOP_CLEANLY: Final = (_run, _skip, _spark_mirror)

_COMMANDS: Final = (
    (
        "run",
        _run,
        "relay until stopped; SIGTERM and SIGINT stop cleanly",
        EXAMPLE,
    ),
    (
        "skip",
        _skip,
        "relay up to one transaction that can't be relayed, leave it out for good, and end",
        "pgrelay skip --config relay.yaml --lsn 16/B374D848",
    ),
    (
        "reset",
        _reset,
        "after a gap: drop the slot and forget its position, so that the next run begins anew",
        "pgrelay reset --config relay.yaml",
    ),
    (
        "check",
        _check,
        "tell everything that would stop or hurt a run, each with its cure; change nothing",
        "pgrelay check --config relay.yaml --json",
    ),
    (
        "status",
        _status,
        "tell how the relay is that runs with this configuration: lag, rates, tables, errors",
        "pgrelay status --config relay.yaml",
    ),
    (
        "spark-mirror",
        _spark_mirror,
        "keep Delta or Iceberg tables equal to the topics' tables, on Spark; SIGTERM and SIGINT stop cleanly",
        "pgrelay spark-mirror --config mirror.yaml",
    ),
    (
        "demo",
        _demo,
        "show an embedded Postgres and a real Kafka broker, a workload, and the records as they arrive",
        "pgrelay demo --rows 1000",
    ),
    (
        "plan",
        _plan,
        "divide the published tables among several relays: writes their configurations, prints the SQL",
        "pgrelay plan --config relay.yaml --shards 3 > relay.sql",
    ),
    (
        "schema",
        _schema,
        "print the JSON Schema of the configuration, for editors",
        "pgrelay schema > relay.schema.json",
    ),
)
