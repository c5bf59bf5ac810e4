"""How long to wait before the next try: jittered, growing, and forgotten once things went well."""

import random
from typing import Final

_FIRST_S: Final = 0.2
_MOST_S: Final = 5.0


class Backoff:
    """Seconds between tries, each drawn between half and all of a bound that doubles."""

    def __init__(self) -> None:
        self._bound_s = _FIRST_S

    def reset(self) -> None:
        self._bound_s = _FIRST_S

    def next_s(self, most_s: float = _MOST_S) -> float:
        """`most_s`: what the bound may grow to."""
        bound_s = min(self._bound_s, most_s)
        self._bound_s = bound_s * 2
        return random.uniform(bound_s / 2, bound_s)
