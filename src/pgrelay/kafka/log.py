"""Where librdkafka's own log lines go."""

import logging


def quiet_log() -> logging.Logger:
    """The logger for each client: critical lines only, because the rest also reaches our callbacks.

    So does what is fatal to a producer; but we cause that ourselves, too, when we drop what a stop leaves.
    """
    log = logging.getLogger("librdkafka")
    log.setLevel(logging.CRITICAL)
    log.addFilter(_new_to_us)  # once, however often it is added
    return log


def _new_to_us(record: logging.LogRecord) -> bool:
    """Whether nothing else tells of it; then it is a warning, since the relay goes on or says why not."""
    if "Fatal error:" in record.getMessage():
        return False
    record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
    return True
