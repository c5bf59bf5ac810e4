"""The files that client options name, such as `ssl.ca.location`."""

import errno
import os
from collections.abc import Mapping
from typing import Final

# Only the authorities' certificates can be a folder of files.
_FILES: Final = frozenset(f"ssl.{name}.location" for name in ("certificate", "crl", "key", "keystore"))


def unreadable_file(options: Mapping[str, str]) -> str | None:
    """The first option whose file can't be read, with its path and why; None if all can be read.

    Some clients' error messages name neither the path nor the reason.
    """
    for name, path in options.items():
        # With "probe", librdkafka looks for the certificates itself.
        if name.endswith(".location") and path != "probe":
            try:
                os.close(os.open(path, os.O_RDONLY))
                if name in _FILES and os.path.isdir(path):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            except (OSError, ValueError) as error:
                return f"{name}: {path}: {getattr(error, 'strerror', None) or 'not a valid path'}"
    return None
