"""Whether the clocks of the server and this machine agree."""

import pytest

from pgrelay.check.clock import clock_difference


@pytest.mark.parametrize("seconds", [0.0, 4.0, -4.0])
def test_clocks_that_agree_are_ok(seconds: float) -> None:
    assert clock_difference(seconds).level == "ok"


@pytest.mark.parametrize(("seconds", "what"), [(90.0, "1 min 30 s ahead of"), (-7200.0, "2 h 0 min behind")])
def test_clocks_that_differ_are_a_warning(seconds: float, what: str) -> None:
    finding = clock_difference(seconds)
    assert finding.level == "warning"
    assert what in finding.what
