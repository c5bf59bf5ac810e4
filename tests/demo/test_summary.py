from dataclasses import replace

import pytest

from pgrelay.demo.fold import Comparison
from pgrelay.demo.summary import Outcome, summary
from pgrelay.demo.tally import Tally
from tests.demo.changes import change


@pytest.fixture
def outcome() -> Outcome:
    tally = Tally({("orders", (8,))})
    tally.add(change("c"))
    comparisons = [Comparison("orders", 1, 0, 0), Comparison("products", 0, 0, 0)]
    return Outcome(tally, comparisons, (1, 14), 1, 2.5, 0)


def lines(outcome: Outcome) -> list[str]:
    return ["".join(text for _, text in line) for line in summary(outcome)]


def test_the_summary_of_a_good_end(outcome: Outcome) -> None:
    assert outcome.succeeded
    found = lines(outcome)
    assert found[2].split() == ["orders", "1", *"·····", "1"]
    assert "equal        the topics, folded, equal the 2 tables: 1 row, every value" in found
    assert "rolled back  1 row at savepoints; none of them is in Kafka" in found
    assert "streamed     1 large transaction sent before commit, in 14 parts" in found
    assert "relay        stopped with exit code 0" in found


def test_a_difference_is_reported_as_a_bad_end(outcome: Outcome) -> None:
    outcome = replace(outcome, comparisons=[Comparison("orders", 3, 2, 1), Comparison("products", 0, 0, 0)])
    assert not outcome.succeeded
    text = "DIFFERENT    orders: 2 of its 3 rows not in the topic, 1 row of the topic not in the table"
    assert text in lines(outcome)
    assert not any(line.startswith("equal") for line in lines(outcome))


def test_a_rolled_back_row_in_kafka_is_a_bad_end(outcome: Outcome) -> None:
    outcome.tally.add(change("c", key={"id": 8}))
    assert not outcome.succeeded
    assert "ROLLED BACK  1 of 1 row that savepoints rolled back are in Kafka" in lines(outcome)


def test_a_relays_exit_code_other_than_0_is_a_bad_end(outcome: Outcome) -> None:
    assert not replace(outcome, relay_exit_code=4).succeeded
