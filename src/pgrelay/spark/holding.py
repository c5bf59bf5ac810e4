"""What the whole-transaction mirrors of this process hold back, for those who tell of it."""

# By the query's id, when the oldest transaction that waits committed: seconds since 1970.
_oldest: dict[str, float] = {}


def holds(query: str, oldest_s: float | None) -> None:
    """Note since when a query holds something back; None where it does not."""
    if oldest_s is None:
        _oldest.pop(query, None)
    else:
        _oldest[query] = oldest_s


def held_since(query: str) -> float | None:
    """When the oldest transaction committed that a query holds back; None where it holds none."""
    return _oldest.get(query)
