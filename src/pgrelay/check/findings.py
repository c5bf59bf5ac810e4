"""What a check finds, and how findings are worded: one line each for what, why and the cure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pgrelay.errors import GapError, PgrelayError, SetupError, cut_at_cure

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """An error would stop a run, a warning would hurt it. `why` and `cure` are empty where all is well.

    `by_a_run`: nothing is wrong with it if it is this relay that runs. `gap`: a run would lose changes.
    """

    level: Literal["ok", "warning", "error"]
    what: str
    why: str = ""
    cure: str = ""
    by_a_run: bool = False
    gap: bool = False


def ok(what: str) -> Finding:
    return Finding("ok", what)


def warning(what: str, why: str, cure: str, by_a_run: bool = False) -> Finding:
    return Finding("warning", what, why, cure, by_a_run)


def error(what: str, why: str, cure: str, gap: bool = False) -> Finding:
    return Finding("error", what, why, cure, gap=gap)


def refused(refusal: PgrelayError, why: str) -> Finding:
    """An error that a run would meet, as a finding. Short ones end in their cure behind a colon."""
    what, cure = cut_at_cure(refusal)
    if not cure:
        what, _, cure = what.rpartition(": ")
    return error(what, why, cure, gap=isinstance(refusal, GapError))


def mistake(line: str, why: str) -> Finding:
    """A line about the configuration as a finding. In `expected 1 or more; got '0'` the cure comes first."""
    place, _, told = line.partition(": expected ")
    wanted, got, value = told.partition("; got ")
    if not got:
        return refused(SetupError(line), why)
    return error(f"{place}: got {value}", why, f"write {wanted}")


def some(names: Sequence[str], joint: str = ", ") -> str:
    """The first few, and how many more there are."""
    more = len(names) - _SHOWN
    return joint.join([*names[:_SHOWN], f"and {more} more"] if more > 0 else names)
