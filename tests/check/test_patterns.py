"""Patterns that match nothing."""

from pgrelay.check.patterns import unmatched, unmatched_patterns

COLUMNS = ["public.customers.email", "public.customers.Phone"]


def test_a_pattern_must_match_the_whole_name_and_its_case() -> None:
    given = [r"public\.customers\.email", r"customers\.email", r"public\.customers\.phone", r".*\.Pho.*"]
    assert unmatched({"hash": given}, COLUMNS) == {"hash": [r"customers\.email", r"public\.customers\.phone"]}
    assert unmatched({"hash": []}, COLUMNS) == {"hash": []}
    assert unmatched({"hash": given}, []) == {"hash": given}
    assert unmatched({"hash": [r"public\..*"]}, ["public.a\nb.c"]) == {"hash": []}


def test_each_key_with_unmatched_patterns_is_a_warning() -> None:
    (finding,) = unmatched_patterns(
        {"records.columns.hash": ["email"], "records.columns.mask": []}, "column", "s.t.c"
    )
    assert (finding.level, finding.what) == (
        "warning",
        "records.columns.hash: 1 pattern without a matching column: email",
    )
