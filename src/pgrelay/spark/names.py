"""Names in Spark SQL, and those that pgrelay adds to a table."""

from typing import Final

COMMIT_LSN: Final = "__commit_lsn"
SEQ: Final = "__seq"


def quoted(name: str) -> str:
    """One identifier between backticks."""
    return f"`{name.replace('`', '``')}`"
