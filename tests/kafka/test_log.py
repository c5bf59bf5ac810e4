"""How librdkafka's own log lines come out."""

import logging

import pytest

from pgrelay.kafka.log import quiet_log


def test_what_is_fatal_to_a_client_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The relay goes on, or ends with an error of its own; and the log has no level above error."""
    for log in quiet_log(), quiet_log():
        log.error("not worth telling")
        log.critical("FATAL")
    assert caplog.record_tuples == [("librdkafka", logging.WARNING, "FATAL")] * 2
