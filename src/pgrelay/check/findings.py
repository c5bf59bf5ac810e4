"""The findings of a check: one line each for what is wrong, why it matters, and the cure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pgrelay.errors import GapError, PgrelayError, split_cure
from pgrelay.figures import counted

MAX_SHOWN: Final = 5  # of several findings or names of a kind
CHECK_AGAIN: Final = "fix that, then check again"


@dataclass(frozen=True, slots=True)
class Finding:
    """An error would stop a run, a warning would hurt it. `why` and `cure` are empty at level ok.

    `expected_in_run`: while this relay runs, it causes this itself, and nothing is wrong. `gap`: a run would
    lose changes.
    """

    level: Literal["ok", "warning", "error"]
    what: str
    why: str = ""
    cure: str = ""
    expected_in_run: bool = False
    gap: bool = False


def ok(what: str) -> Finding:
    return Finding("ok", what)


def warning(what: str, why: str, cure: str, expected_in_run: bool = False) -> Finding:
    return Finding("warning", what, why, cure, expected_in_run)


def error(what: str, why: str, cure: str, gap: bool = False) -> Finding:
    return Finding("error", what, why, cure, gap=gap)


def refusal_finding(refusal: PgrelayError, why: str) -> Finding:
    """The finding for an error that a run would raise. Without `; `, its cure follows the last `: `."""
    what, cure = split_cure(refusal)
    if not cure:
        what, _, cure = what.rpartition(": ")
    return error(what, why, cure, gap=isinstance(refusal, GapError))


def refusal_findings(
    refusals: Sequence[PgrelayError], why: str, *, noun: str, fate: str, cure: str
) -> list[Finding]:
    """A finding for each of the first few, and one that counts the rest, with their `fate` and `cure`."""
    findings = [refusal_finding(refusal, why) for refusal in refusals[:MAX_SHOWN]]
    if len(refusals) > MAX_SHOWN:
        more = counted(len(refusals) - MAX_SHOWN, f"more {noun}")
        findings.append(error(f"{more} {fate}", why, cure))
    return findings


def not_checked(what: str, refusal: PgrelayError) -> Finding:
    return warning(f"{what} could not be checked", str(refusal), CHECK_AGAIN)


def first_few(names: Sequence[str], joint: str = ", ") -> str:
    """The first few names, and how many more there are."""
    more = len(names) - MAX_SHOWN
    return joint.join([*names[:MAX_SHOWN], f"and {more} more"] if more > 0 else names)
