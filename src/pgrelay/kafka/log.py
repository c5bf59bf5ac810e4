"""The logger for librdkafka's own log lines."""

import logging


def librdkafka_logger() -> logging.Logger:
    """The logger of every client: critical lines only, because the rest also comes to our callbacks.

    An error that is fatal to a producer is raised by its next call. (Purging it at a stop is fatal, too.)
    """
    log = logging.getLogger("librdkafka")
    log.setLevel(logging.CRITICAL)
    log.addFilter(_not_raised)  # once, however often it is added
    return log


def _not_raised(record: logging.LogRecord) -> bool:
    """Whether nothing else reports it; logged as a warning, since the relay goes on or says why not."""
    if "Fatal error:" in record.getMessage():
        return False
    record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
    return True
