"""The commands. Each loads the configuration, has a package do the work, and prints the result on stdout.

`main` turns errors into exit codes. No other logic lives here.
"""

import importlib.util
import json
import os
import shlex
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from pgrelay import early_stop
from pgrelay.arguments import parser
from pgrelay.errors import GapError, PgrelayError, RecordError, SetupError, exit_code
from pgrelay.lsn import format_lsn
from pgrelay.printable import printable
from pgrelay.standard_streams import flush_or_drop, open_closed, print_error, print_result, reader_may_go

T = TypeVar("T")

_BUG: Final = "stopped by a bug in pgrelay; please report it with the traceback"
_NO_MEMORY: Final = "out of memory; give the process more: docs/operations.md says how much it needs"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (from `sys.argv` if None) and return the process's exit code.

    argparse itself ends the process on --help, --version and wrong usage.
    """
    open_closed()
    try:
        options = parser().parse_args(arguments)
        note = early_stop.noted()
        if note is not None and options.command not in _STOP_CLEANLY:
            note.give_back()
            if note.number:
                return 128 + note.number
        return _COMMANDS[options.command](options)
    except PgrelayError as error:
        for line in str(error).splitlines():
            print_error(f"pgrelay: {printable(line)}")
        return exit_code(error)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        print_error(f"{traceback.format_exc()}pgrelay: {_told(error)}")
        return 1
    finally:
        flush_or_drop()


def _complete(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work. asyncio is imported here: it takes half the time of a --help."""
    import asyncio

    return asyncio.run(work)


def _run(options: Namespace) -> int:
    import structlog

    from pgrelay import log
    from pgrelay.config import load

    config = load(options.config)
    log.configure(config.log.level)
    # Imported after the configuration is read: its mistakes are reported without waiting for the clients.
    from pgrelay.check.advice import advise
    from pgrelay.relay import run

    logger = structlog.get_logger()
    try:
        _complete(run(config, advise))
    except PgrelayError as error:
        # Logged, like everything else about this run.
        logger.error(str(error), exit_code=exit_code(error), **_way_past(error, options.config))
        return exit_code(error)
    except Exception as error:
        logger.exception(_told(error), exit_code=1)
        return 1
    return 0


def _told(error: Exception) -> str:
    """What ended the process if it was no error of ours."""
    return _NO_MEMORY if isinstance(error, MemoryError) else _BUG


def _way_past(error: PgrelayError, file: str) -> dict[str, str]:
    """For the log: the command that gives up what can't be relayed (one transaction, or all since a gap)."""
    if isinstance(error, GapError):
        return {"to_begin_anew": f"pgrelay reset --config {shlex.quote(file)}"}
    if isinstance(error, RecordError) and error.commit_lsn:
        return {"to_skip": f"pgrelay skip --config {shlex.quote(file)} --lsn {format_lsn(error.commit_lsn)}"}
    return {}


def _skip(options: Namespace) -> int:
    from pgrelay import log
    from pgrelay.config import load

    config = load(options.config)
    log.configure(config.log.level)
    from pgrelay.relay.skip import skip

    summary = _complete(skip(config, options.lsn))
    print_result(summary)
    return 0


def _reset(options: Namespace) -> int:
    from pgrelay import log
    from pgrelay.config import load

    config = load(options.config)
    log.configure("warning")
    from pgrelay.relay.reset import reset

    summary = _complete(reset(config, keep_slot=options.keep_slot))
    print_result(summary)
    return 0


def _check(options: Namespace) -> int:
    from pgrelay import log
    from pgrelay.config import load

    try:
        config = load(options.config)
    except SetupError as mistakes:
        if options.json:
            print_result(_mistakes_as_json(mistakes))
        raise
    log.configure("warning")
    from pgrelay.check import check
    from pgrelay.check.report import as_json, as_text

    findings = _complete(check(config))
    print_result(as_json(findings) if options.json else as_text(findings, _colours_wanted()))
    if any(finding.gap for finding in findings):
        return GapError.exit_code
    return SetupError.exit_code if any(finding.level == "error" for finding in findings) else 0


def _mistakes_as_json(mistakes: SetupError) -> str:
    """One finding per line; each line is a mistake in the configuration."""
    from pgrelay.check.findings import refusal_finding
    from pgrelay.check.report import as_json

    why = f"no command starts with it: exit code {SetupError.exit_code}"
    return as_json([refusal_finding(SetupError(line), why) for line in str(mistakes).splitlines()])


def _status(options: Namespace) -> int:
    from pgrelay.config import load_status_endpoint
    from pgrelay.status.client import ask
    from pgrelay.status.snapshot import Snapshot
    from pgrelay.status.terminal import render

    document = ask(load_status_endpoint(options.config), options.config)
    if options.json:
        print_result(json.dumps(document, indent=2))
    else:
        print_result(render(Snapshot.from_json(document), _colours_wanted()))
    return 0


def _spark_mirror(options: Namespace) -> int:
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


def _demo(options: Namespace) -> int:
    if options.spark:
        _need_pyspark("demo --spark")
    from pgrelay.demo import demo

    with reader_may_go():
        return demo(options.rows, options.keep, options.spark)
    return 0


def _plan(options: Namespace) -> int:
    from pgrelay.plan import plan

    summary = _complete(
        plan(
            Path(options.config),
            options.shards,
            options.output,
            ignore_foreign_keys=options.ignore_foreign_keys,
        )
    )
    print_result(summary)
    return 0


def _schema(options: Namespace) -> int:
    from pgrelay.config import Config

    print_result(json.dumps(Config.model_json_schema(), indent=2))
    return 0


def _example(options: Namespace) -> int:
    from pgrelay.config import example

    print_result(example().rstrip("\n"))
    return 0


def _colours_wanted() -> bool:
    """Colours are for a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


_COMMANDS: Final[Mapping[str, Callable[[Namespace], int]]] = {
    "run": _run,
    "skip": _skip,
    "reset": _reset,
    "check": _check,
    "status": _status,
    "spark-mirror": _spark_mirror,
    "demo": _demo,
    "plan": _plan,
    "schema": _schema,
    "example": _example,
}

# These handle signals themselves, and look for one that was noted before they could.
_STOP_CLEANLY: Final = ("run", "skip", "spark-mirror")
