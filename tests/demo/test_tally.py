import pytest

from pgrelay.demo.change import TOMBSTONE
from pgrelay.demo.tally import Tally
from tests.demo.changes import COMMIT_US, change


class Clock:
    def __init__(self) -> None:
        self.now = COMMIT_US / 1e6

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tally(clock: Clock) -> Tally:
    return Tally(set(), clock)


def test_counts_records_by_table_and_op(tally: Tally) -> None:
    for each in (change("c"), change("c", "products"), change("d"), change(TOMBSTONE)):
        tally.add(each)
    assert tally.total == 4
    assert tally.count_of("c") == 2
    assert tally.records["orders", "c"] == 1


def test_a_rolled_back_row_in_kafka_is_noticed(clock: Clock) -> None:
    tally = Tally({("orders", (7,)), ("orders", (8,))}, clock)
    tally.add(change("c", key={"id": 6}))
    assert not tally.leaked
    tally.add(change("c", key={"id": 7}))
    assert tally.leaked == {("orders", (7,))}


def test_a_transactions_lag_is_that_of_its_last_record(tally: Tally, clock: Clock) -> None:
    for position, late_s in [((1, 0), 0.010), ((2, 0), 0.020), ((2, 1), 0.300), ((3, 0), 0.030)]:
        clock.now = COMMIT_US / 1e6 + late_s
        tally.add(change("c", position=position))
    assert round(tally.lag_ms) == 30
    assert round(tally.max_lag_ms) == 300


def test_the_rate_covers_the_last_seconds(tally: Tally, clock: Clock) -> None:
    assert tally.rate() == 0
    for _ in range(100):
        tally.add(change("c"))
    clock.now += 1
    assert round(tally.rate()) == 100
    for _ in range(10):
        clock.now += 1
        tally.rate()
    assert tally.rate() == 0


def test_the_status_line_shows_the_counts(clock: Clock) -> None:
    tally = Tally({("orders", (8,))}, clock)
    clock.now += 0.012
    tally.add(change("c"))
    tally.add(change("u"))
    text = "".join(piece for _, piece in tally.status(2_048, "order 7 is paid"))
    assert text == "2 records  c 1 u 1  167/s  lag 2.00 KiB, 12 ms  rolled back 1, 0 arrived  order 7 is paid"
