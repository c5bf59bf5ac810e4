"""The commands. Each loads the configuration, calls the package that does the work, and prints the result.

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
from pgrelay.standard_streams import (
    flush_or_discard,
    print_error,
    print_result,
    reopen_closed_streams,
    tolerate_closed_pipe,
)

T = TypeVar("T")

_BUG: Final = "stopped by a bug in pgrelay; please report it with the traceback"
_NO_MEMORY: Final = "out of memory; give the process more: docs/operations.md says how much it needs"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (from `sys.argv` if None) and return the process's exit code.

    argparse itself ends the process on --help, --version and wrong usage.
    """
    reopen_closed_streams()
    try:
        options = parser().parse_args(arguments)
        recorder = early_stop.active_recorder()
        if recorder is not None and options.command not in _STOP_CLEANLY:
            recorder.restore()
            if recorder.number:
                return 128 + recorder.number
        return _COMMANDS[options.command](options)
    except PgrelayError as error:
        for line in str(error).splitlines():
            print_error(f"pgrelay: {printable(line)}")
        return exit_code(error)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        print_error(f"{traceback.format_exc()}pgrelay: {_crash_message(error)}")
        return 1
    finally:
        flush_or_discard()


def _run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end. asyncio is imported here: that would take half the time of a --help."""
    import asyncio

    return asyncio.run(work)


def _run(options: Namespace) -> int:
    import structlog

    from pgrelay import log
    from pgrelay.config import load

    config = load(options.config)
    log.configure(config.log.level)
    # Imported after the configuration is read, so that its mistakes are reported without loading the clients.
    from pgrelay.check.advice import advise
    from pgrelay.relay import run

    logger = structlog.get_logger()
    try:
        _run_async(run(config, advise))
    except PgrelayError as error:
        # Logged, like everything else about this run.
        logger.error(str(error), exit_code=exit_code(error), **_remedy(error, options.config))
        return exit_code(error)
    except Exception as error:
        logger.exception(_crash_message(error), exit_code=1)
        return 1
    return 0


def _crash_message(error: Exception) -> str:
    """What ended the process, for an error that is not a PgrelayError."""
    return _NO_MEMORY if isinstance(error, MemoryError) else _BUG


def _remedy(error: PgrelayError, file: str) -> dict[str, str]:
    """For the log: the command that gives up what can't be relayed, one transaction or all since a gap."""
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

    summary = _run_async(skip(config, options.lsn))
    print_result(summary)
    return 0


def _reset(options: Namespace) -> int:
    from pgrelay import log
    from pgrelay.config import load

    config = load(options.config)
    log.configure("warning")
    from pgrelay.relay.reset import reset

    summary = _run_async(reset(config, keep_slot=options.keep_slot))
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

    findings = _run_async(check(config))
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
    _require_pyspark("spark-mirror")
    from pgrelay import log
    from pgrelay.spark_mirror.config import load

    config = load(options.config)
    log.configure(config.log.level)
    from pgrelay.spark_mirror.run import run

    run(config, once=options.once)
    return 0


def _require_pyspark(command: str) -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise SetupError(f"{command} needs PySpark, which is not installed: pip install 'pgrelay[spark]'")


def _demo(options: Namespace) -> int:
    if options.spark:
        _require_pyspark("demo --spark")
    from pgrelay.demo import demo

    with tolerate_closed_pipe():
        return demo(options.rows, options.keep, options.spark)
    return 0


def _plan(options: Namespace) -> int:
    from pgrelay.plan import plan

    summary = _run_async(
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

# These handle signals themselves, and look for one that was recorded before they could.
_STOP_CLEANLY: Final = ("run", "skip", "spark-mirror")
