"""The files that clients' options name, such as `ssl.ca.location`."""

import os
from collections.abc import Mapping


def unreadable(options: Mapping[str, str]) -> str | None:
    """The first option whose file can't be read, with its path and why; None where all can.

    For complaints of clients that tell neither.
    """
    for name, path in options.items():
        # librdkafka looks for the certificates itself where it is told to probe.
        if name.endswith(".location") and path != "probe":
            try:
                os.close(os.open(path, os.O_RDONLY))
            except (OSError, ValueError) as error:
                return f"{name}: {path}: {getattr(error, 'strerror', None) or 'is no path'}"
    return None
