"""Where librdkafka's own log lines go."""

import logging


def quiet_log() -> logging.Logger:
    """The logger for each client: critical lines only, because the rest also reaches our callbacks."""
    log = logging.getLogger("librdkafka")
    log.setLevel(logging.CRITICAL)
    return log
