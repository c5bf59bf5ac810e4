from itertools import islice

import pytest

from pgrelay.demo.shop import IMPORTED, MAX_SHOWN, Transaction, transactions


def described(found: list[Transaction]) -> str:
    return repr([(each.title, each.changes, [str(part) for part in each.statements]) for each in found])


def test_the_same_seed_gives_the_same_shop() -> None:
    first, second, other = (described(list(islice(transactions(seed), 300))) for seed in (1, 1, 2))
    assert first == second
    assert first != other


@pytest.mark.parametrize("rows", [1, 2, 7, 8, 60, 300, 1_000])
def test_any_number_of_rows_is_shown_exactly(rows: int) -> None:
    assert sum(each.shown for each in transactions(1, rows)) == rows


def test_the_first_sixty_rows_hold_everything_worth_seeing() -> None:
    found = list(transactions(1, 60))
    statements = " ".join(text for each in found for text, _ in each.statements)
    for word in (
        "INSERT",
        "UPDATE",
        "DELETE",
        "TRUNCATE",
        "ROLLBACK TO SAVEPOINT",
        "pg_logical_emit_message",
    ):
        assert word in statements
    assert max(each.changes for each in found) > IMPORTED


def test_a_large_transaction_counts_with_its_shown_rows() -> None:
    [large] = [each for each in transactions(1, 60) if each.changes > IMPORTED]
    assert large.shown == MAX_SHOWN


def test_no_two_transactions_roll_back_the_same_rows() -> None:
    found = list(transactions(1, 1_000))
    keys = [key for each in found for key in each.rolled_back_keys]
    assert len(keys) == len(set(keys))
    assert len([each for each in found if each.changes > IMPORTED]) > 1


def test_rolled_back_rows_are_known_by_key() -> None:
    rolled_back = {key for each in transactions(1, 60) for key in each.rolled_back_keys}
    assert ("supplier_prices", (f"HB-{IMPORTED + 1:05}",)) in rolled_back
    assert {table for table, _ in rolled_back} == {"supplier_prices", "order_items"}
