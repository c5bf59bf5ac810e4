"""How findings are printed: lines for a person, JSON for a program."""

import json
from collections.abc import Sequence
from typing import Final

from pgrelay.check.findings import Finding
from pgrelay.figures import counted
from pgrelay.printable import printable

_COLOURS: Final = {"ok": "32", "warning": "33", "error": "1;31"}


def as_text(findings: Sequence[Finding], coloured: bool) -> str:
    """A line for each finding, with why and cure below it; the last line counts errors and warnings."""
    lines: list[str] = []
    for finding in findings:
        level = f"{finding.level:<8}"
        if coloured:
            level = f"\x1b[{_COLOURS[finding.level]}m{level}\x1b[0m"
        lines.append(f"{level} {printable(finding.what)}")
        if finding.level != "ok":
            lines += [f"{'':8} why: {printable(finding.why)}", f"{'':8} fix: {printable(finding.cure)}"]
    levels = [finding.level for finding in findings]
    counts = f"{counted(levels.count('error'), 'error')}, {counted(levels.count('warning'), 'warning')}"
    return "\n".join([*lines, counts])


def as_json(findings: Sequence[Finding]) -> str:
    """A JSON array with an object for each finding."""
    names = ("level", "what", "why", "cure")
    return json.dumps([{name: getattr(finding, name) for name in names} for finding in findings], indent=2)
