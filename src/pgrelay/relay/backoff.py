"""How long to wait before the next try: jittered, growing, and forgotten once things went well."""

import random
from typing import Final

_FIRST_S: Final = 0.2
_MOST_S: Final = 5.0


class Backoff:
    """Seconds between tries, each drawn between half and all of a bound that doubles."""

    def __init__(self, first_s: float = _FIRST_S, most_s: float = _MOST_S) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._bound_s = first_s

    def reset(self) -> None:
        self._bound_s = self._first_s

    def next_s(self) -> float:
        bound_s = self._bound_s
        self._bound_s = min(bound_s * 2, self._most_s)
        return random.uniform(bound_s / 2, bound_s)
