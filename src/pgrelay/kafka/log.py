"""Where librdkafka's own log lines go."""

import logging


def quiet_log() -> logging.Logger:
    """The logger for each client: critical lines only, because the rest also reaches our callbacks."""
    log = logging.getLogger("librdkafka")
    log.setLevel(logging.CRITICAL)
    log.addFilter(_as_warning)  # once, however often it is added
    return log


def _as_warning(record: logging.LogRecord) -> bool:
    # What is fatal to a producer, the relay survives, or ends in an error of its own.
    record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
    return True
