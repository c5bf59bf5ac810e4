"""Tolerates a password that is changed while the relay runs: at the server first, in its file a moment later.

Kubernetes brings a changed secret into a volume within a minute or two. Until then, a refused password that
was right before may be right again. One that is not from a file, or was never right, stays wrong.
"""

import time
from typing import Final

from pgrelay.errors import PasswordRefused, SourceUnavailable

_GRACE_S: Final = 120.0


class PasswordRotation:
    """Whether the password was ever accepted, and since when it is refused."""

    def __init__(self) -> None:
        self._was_accepted = False
        self._refused_since: float | None = None

    def accepted(self) -> None:
        """The server has accepted the password."""
        self._was_accepted, self._refused_since = True, None

    def classify(self, error: Exception) -> Exception:
        """The error itself, or a transient one if the file may have another password in a moment."""
        if not isinstance(error, PasswordRefused) or not self._was_accepted:
            return error
        now = time.monotonic()
        self._refused_since = now if self._refused_since is None else self._refused_since
        return error if now - self._refused_since >= _GRACE_S else SourceUnavailable(str(error))
