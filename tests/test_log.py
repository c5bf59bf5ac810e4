"""The log on stderr: JSON for programs, readable lines for people, nothing below the level."""

import io
import json
import logging
import sys
import warnings
from typing import Any

import pytest
import structlog

from pgrelay import log

pytestmark = pytest.mark.usefixtures("restored_logging")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def entries(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_without_a_terminal_entries_are_json() -> None:
    stream = io.StringIO()
    log.configure("info", stream)
    structlog.get_logger().info("slot made", slot="pgrelay", raw=b"x")
    (entry,) = entries(stream)
    assert entry.pop("timestamp").endswith("Z")
    assert entry == {"event": "slot made", "level": "info", "slot": "pgrelay", "raw": "b'x'"}


def test_on_a_terminal_entries_are_readable() -> None:
    stream = Terminal()
    log.configure("info", stream)
    structlog.get_logger().info("slot made")
    assert "slot made" in stream.getvalue()
    assert "{" not in stream.getvalue()


def test_a_tables_name_commands_no_terminal() -> None:
    stream = Terminal()
    log.configure("info", stream)
    structlog.get_logger().info("table seen", table="evil \x1b]0;x\x07\nok")
    assert stream.getvalue().count("\n") == 1
    assert "\x07" not in stream.getvalue()
    assert "\x1b]" not in stream.getvalue()


def test_the_log_goes_to_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    log.configure("info")
    structlog.get_logger().info("slot made")
    assert entries(stream)[0]["event"] == "slot made"


@pytest.mark.parametrize(
    ("level", "heard"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_nothing_below_the_level_is_logged(level: log.Level, heard: list[str]) -> None:
    stream = io.StringIO()
    log.configure(level, stream)
    logger = structlog.get_logger()
    for name in ("debug", "info", "warning", "error"):
        getattr(logger, name)("x")
    assert [entry["level"] for entry in entries(stream)] == heard


def test_a_logger_made_before_configure_follows_it() -> None:
    logger = structlog.get_logger()
    stream = io.StringIO()
    log.configure("info", stream)
    logger.info("x")
    assert len(entries(stream)) == 1


def test_a_traceback_is_one_entry_without_the_values_of_variables() -> None:
    for stream in (io.StringIO(), Terminal()):
        log.configure("info", stream)
        password = "hunter" + "2"
        try:
            raise ValueError(len(password))
        except ValueError:
            structlog.get_logger().exception("broke")
        assert "ValueError: 7" in stream.getvalue()
        assert "hunter2" not in stream.getvalue()


def test_warnings_of_libraries_are_logged_the_same_way() -> None:
    stream = io.StringIO()
    log.configure("info", stream)
    logging.getLogger("some.library").info("not worth telling")
    logging.getLogger("some.library").warning("lost %s", "it")
    (entry,) = entries(stream)
    entry.pop("timestamp")
    assert entry == {"event": "lost it", "level": "warning", "logger": "some.library"}


def test_a_log_that_can_not_be_written_raises_nothing() -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    log.configure("info", Full())
    structlog.get_logger().info("x")
    logging.getLogger("some.library").warning("x")


def test_warnings_of_the_warnings_module_are_logged() -> None:
    stream = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        log.configure("info", stream)
        warnings.warn("old ways", DeprecationWarning, stacklevel=1)
    (entry,) = entries(stream)
    assert entry["logger"] == "py.warnings"
    assert "old ways" in entry["event"]
