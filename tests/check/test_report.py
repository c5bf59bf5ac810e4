"""Findings as text for people and as JSON for programs."""

import json

from pgrelay.check.findings import error, ok, warning
from pgrelay.check.report import as_json, as_text

FINDINGS = (
    ok("Postgres 18.4 answers"),
    warning("slot pgrelay is active", "PID 77 reads it", "stop that relay, or wait"),
    error("wal_level is replica", "changes are not decoded", "set wal_level = logical, restart"),
)


def test_a_finding_has_lines_for_what_why_and_cure() -> None:
    assert as_text(FINDINGS, coloured=False).splitlines() == [
        "ok       Postgres 18.4 answers",
        "warning  slot pgrelay is active",
        "         why: PID 77 reads it",
        "         fix: stop that relay, or wait",
        "error    wal_level is replica",
        "         why: changes are not decoded",
        "         fix: set wal_level = logical, restart",
        "1 error, 1 warning",
    ]


def test_a_findings_level_has_a_colour() -> None:
    assert as_text(FINDINGS, coloured=True).startswith("\x1b[32mok      \x1b[0m Postgres 18.4 answers\n")


def test_a_tables_name_commands_no_terminal() -> None:
    text = as_text([warning("table \x1b]0;x\x07\nok all is well", "\x9b1m", "\u202e")], coloured=False)
    assert text.splitlines() == [
        r"warning  table \x1b]0;x\x07\nok all is well",
        r"         why: \x9b1m",
        r"         fix: \u202e",
        "0 errors, 1 warning",
    ]


def test_as_json_findings_are_an_array_of_objects() -> None:
    assert json.loads(as_json(FINDINGS)) == [
        {"level": each.level, "what": each.what, "why": each.why, "cure": each.cure} for each in FINDINGS
    ]
