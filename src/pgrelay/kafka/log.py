"""Where librdkafka's own log lines go."""

import logging


def librdkafka_logger() -> logging.Logger:
    """The logger for each client: critical lines only, because the rest also reaches our callbacks.

    What is fatal to a producer is raised by its next call. Dropping what a stop leaves is fatal to it, too.
    """
    log = logging.getLogger("librdkafka")
    log.setLevel(logging.CRITICAL)
    log.addFilter(_untold)  # once, however often it is added
    return log


def _untold(record: logging.LogRecord) -> bool:
    """Whether nothing else tells of it; then it is a warning, since the relay goes on or says why not."""
    if "Fatal error:" in record.getMessage():
        return False
    record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
    return True
