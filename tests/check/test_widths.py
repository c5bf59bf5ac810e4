"""The widest rows found, compared with the largest record."""

from pgrelay.check.widths import judged

LIMIT = 1_000_000


def test_rows_that_fit_are_ok() -> None:
    [finding] = judged({"public.docs": LIMIT - 1}, [], LIMIT)
    assert finding.level == "ok"
    assert finding.what == "samples of 1 table with large values have no row above 977 KiB"
    [finding] = judged({}, [], LIMIT)
    assert finding.what == "no table's values are large enough for rows above 977 KiB"


def test_rows_that_are_too_wide_are_a_warning() -> None:
    [finding] = judged({"public.docs": 3 * LIMIT, "public.notes": 10}, [], LIMIT)
    assert (finding.level, finding.what) == ("warning", "rows of up to 2.86 MiB in public.docs")
    assert "message.max.bytes: 6000000" in finding.cure


def test_tables_that_could_not_be_searched_are_named() -> None:
    [finding] = judged({}, ["public.docs"], LIMIT)
    assert finding.level == "ok"
    assert "public.docs; not searched" in finding.what
