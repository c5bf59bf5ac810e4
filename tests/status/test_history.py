"""Rates and latencies over the last seconds, from counts that only grow."""

import math
from collections import Counter

import pytest

from pgrelay.status.history import MAX_POINTS, History, Latencies, Sample, quantile

NOTHING: Latencies = [(0.001, 0), (0.01, 0), (math.inf, 0)]


def sample(
    at_s: float, transactions: int = 0, latencies: Latencies = NOTHING, lag_s: float = 0, **tables: int
) -> Sample:
    return Sample(at_s, lag_s, 0, transactions, Counter(tables), latencies)


def test_a_single_sample_gives_no_rates() -> None:
    history = History()
    history.add(sample(1, 5, orders=7))
    assert history.records_per_s() == {}
    assert history.transactions_per_s() == 0
    assert history.latency_s(0.5) is None


def test_rates_are_averaged_over_the_time_that_passed() -> None:
    history = History()
    history.add(sample(0, orders=10, stock=3))
    history.add(sample(2, 8, orders=20, stock=3))
    history.add(sample(4, 12, orders=30, stock=3, late=4))
    assert history.records_per_s() == {"orders": 5, "late": 1}
    assert history.transactions_per_s() == 3
    assert [point.records_per_s for point in history.points] == [0, 5, 7]


def test_rates_forget_old_samples() -> None:
    history = History()
    history.add(sample(0))
    history.add(sample(1, 100, orders=1000))
    for second in range(2, 20):
        history.add(sample(second, 100, orders=1000))
    assert history.records_per_s() == {}
    assert history.transactions_per_s() == 0


def test_the_chart_holds_the_last_minutes() -> None:
    history = History()
    for second in range(MAX_POINTS + 5):
        history.add(sample(second, lag_s=second))
    assert len(history.points) == MAX_POINTS
    assert history.points[0].lag_s == 5


def test_a_clock_that_is_set_back_restarts_the_rates() -> None:
    history = History()
    history.add(sample(100, orders=0))
    history.add(sample(101, orders=10))
    history.add(sample(50, orders=20))
    assert history.records_per_s() == {}
    history.add(sample(51, orders=25))
    assert history.records_per_s() == {"orders": 5}


def test_latencies_are_those_of_the_last_seconds() -> None:
    history = History()
    history.add(sample(0, latencies=[(0.001, 1000), (0.01, 1000), (math.inf, 1000)]))
    history.add(sample(1, latencies=[(0.001, 1000), (0.01, 1100), (math.inf, 1100)]))
    assert history.latency_s(0.5) == pytest.approx(0.0055)


def test_quantiles_are_interpolated_within_a_bucket() -> None:
    histogram = [(1.0, 50.0), (2.0, 100.0), (math.inf, 100.0)]
    assert [quantile(histogram, share) for share in (0.25, 0.5, 0.75, 1.0)] == [0.5, 1.0, 1.5, 2.0]


def test_a_quantile_past_the_last_bound_is_that_bound() -> None:
    assert quantile([(1.0, 1.0), (math.inf, 100.0)], 0.99) == 1.0


def test_an_empty_histogram_has_no_quantile() -> None:
    assert quantile(NOTHING, 0.5) is None
