"""The timelines that led to a server's own: each promotion begins a new one where the previous one ends.

Source: PostgreSQL manual, "Continuous Archiving and Point-in-Time Recovery", "Timelines"; and the protocol's
TIMELINE_HISTORY.
"""

import re
from dataclasses import dataclass
from typing import Final, Self

from pgrelay.lsn import parse_lsn

# What follows, the reason, is free text; lines may be comments.
_SWITCH: Final = re.compile(r"^\s*([0-9]+)\s+([0-9A-F]+/[0-9A-F]+)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TimelineHistory:
    """`left` has each timeline's number and the LSN at which the server left it, the oldest first."""

    left: tuple[tuple[int, int], ...] = ()

    @classmethod
    def parse(cls, content: str) -> Self:
        """Parse a history file: a line "timeline LSN reason" for each."""
        return cls(tuple((int(number), parse_lsn(lsn)) for number, lsn in _SWITCH.findall(content)))

    def left_at(self, timeline: int) -> int | None:
        """The LSN at which the server left a timeline; None if it was never on it, or has not left it."""
        return next((lsn for number, lsn in self.left if number == timeline), None)

    def began_at(self, timeline: int) -> int | None:
        """The LSN at which a timeline branched off the one before it; None for the first."""
        return next((lsn for number, lsn in reversed(self.left) if number < timeline), None)


# It branched off no other.
FIRST_TIMELINE: Final = TimelineHistory()
