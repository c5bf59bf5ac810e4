"""The files that client options name, such as `ssl.ca.location`."""

import os
from collections.abc import Mapping


def unreadable(options: Mapping[str, str]) -> str | None:
    """The first option whose file can't be read, with its path and why; None if all can be read.

    Some clients' error messages name neither the path nor the reason.
    """
    for name, path in options.items():
        # With "probe", librdkafka looks for the certificates itself.
        if name.endswith(".location") and path != "probe":
            try:
                os.close(os.open(path, os.O_RDONLY))
            except (OSError, ValueError) as error:
                return f"{name}: {path}: {getattr(error, 'strerror', None) or 'not a valid path'}"
    return None
