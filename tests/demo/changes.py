"""Changes as the demo reads them, with defaults for what a test does not care about."""

from pgrelay.demo.change import Change, Row

COMMIT_US = 1_795_000_000_000_000


def change(
    op: str,
    table: str = "orders",
    key: Row | None = None,
    *,
    before: Row | None = None,
    after: Row | None = None,
    position: tuple[int, int] = (100, 0),
    commit_us: int = COMMIT_US,
) -> Change:
    return Change(table, op, {"id": 7} if key is None else key, before, after, position, commit_us, 754)
