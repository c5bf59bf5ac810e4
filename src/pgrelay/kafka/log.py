"""Where librdkafka's own log lines go."""

import logging


def quiet_log() -> logging.Logger:
    """For each client: what is critical alone, since of the rest it complains to us as well."""
    log = logging.getLogger("librdkafka")
    log.setLevel(logging.CRITICAL)
    return log
