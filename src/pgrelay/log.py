"""Logging, to stderr: JSON lines for programs, readable text on a terminal.

Everything logs through structlog: an event in a few words, with its details as keywords. Libraries log
through the standard library; their records come out the same way, from level warning. Stdout is for results
only.
"""

import contextlib
import logging
import sys
from typing import Final, Literal, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from pgrelay.printable import printable

Level = Literal["debug", "info", "warning", "error"]

_NUMBERS: Final[dict[Level, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def configure(level: Level, stream: TextIO | None = None) -> None:
    """Log to `stream` (by default, the current stderr) from `level` up. Call once, before anything logs."""
    target = cast(TextIO, _FailSafeStream(sys.stderr if stream is None else stream))
    common: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering = _rendering(target)
    structlog.configure(
        processors=[*common, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(_NUMBERS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=target),
        cache_logger_on_first_use=False,
    )
    _capture_standard_logging(target, common, rendering)


class _FailSafeStream:
    """A stream whose failures are ignored: a full disk under the log must not end the process."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()


def _rendering(stream: TextIO) -> list[Processor]:
    if stream.isatty():
        return [
            _escape_control_characters,
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
        ]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]


def _escape_control_characters(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Escape what could control the terminal, as in a table's name; JSON does so by itself."""
    return {key: printable(value) if isinstance(value, str) else value for key, value in event.items()}


def _capture_standard_logging(stream: TextIO, common: list[Processor], rendering: list[Processor]) -> None:
    """Render the libraries' warnings, from logging and from the warnings module, the same way."""
    output = logging.StreamHandler(stream)
    output.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*common, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    logging.basicConfig(handlers=[output], level=logging.WARNING, force=True)
    logging.captureWarnings(True)
