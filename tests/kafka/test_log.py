"""How librdkafka's own log lines come out."""

import logging

import pytest

from pgrelay.kafka.log import librdkafka_logger


def test_only_what_nothing_else_tells_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """As a warning: the relay goes on, or ends with an error of its own."""
    for log in librdkafka_logger(), librdkafka_logger():
        log.error("not worth telling")
        log.critical("FATAL [thrd:main]: Fatal error: Local: Gap-less ordering would not be guaranteed")
        log.critical("a bug")
    assert caplog.record_tuples == [("librdkafka", logging.WARNING, "a bug")] * 2
