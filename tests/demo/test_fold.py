"""Folding, and comparing the fold with the shop's transactions on a real server."""

from collections.abc import Iterator

import psycopg
import pytest

from pgrelay.demo.change import TOMBSTONE, Row
from pgrelay.demo.fold import Comparison, Fold, compare
from pgrelay.demo.shop import SCHEMA, TABLES, transactions
from pgrelay.demo.workload import Workload
from pgrelay.embedded.jars import Unavailable
from pgrelay.embedded.postgres import Postgres
from tests.demo.changes import change
from tests.demo.waiting import run_to_end
from tests.unavailable import skip


def test_rows_are_inserted_updated_and_deleted() -> None:
    fold = Fold()
    assert fold.apply(change("c", after={"id": 7, "status": "placed"})) is None
    assert fold.apply(change("u", after={"id": 7, "status": "paid"})) == {"id": 7, "status": "placed"}
    assert fold.rows("orders") == [{"id": 7, "status": "paid"}]
    assert fold.apply(change("d")) == {"id": 7, "status": "paid"}
    assert fold.apply(change(TOMBSTONE)) is None
    assert fold.rows("orders") == []


def test_a_value_that_was_not_sent_stays_the_old_one() -> None:
    fold = Fold()
    fold.apply(change("c", after={"id": 7, "status": "placed", "note": "long"}))
    fold.apply(change("u", after={"id": 7, "status": "paid"}))
    assert fold.rows("orders") == [{"id": 7, "status": "paid", "note": "long"}]


def test_a_truncate_empties_only_its_table() -> None:
    fold = Fold()
    fold.apply(change("c", after={"id": 7}))
    fold.apply(change("c", "products", after={"id": 7}))
    fold.apply(change("t", key={}))
    assert fold.rows("orders") == []
    assert fold.rows("products") == [{"id": 7}]


@pytest.fixture(scope="module")
def connection() -> Iterator[psycopg.Connection]:
    """A shop's database after its first sixty rows."""
    try:
        with Postgres() as postgres, psycopg.connect(postgres.dsn, autocommit=True) as connection:
            connection.execute(SCHEMA)
            run_to_end(Workload(postgres.dsn, transactions(1, 60), 0))
            yield connection
    except Unavailable as error:
        skip(error)


def rows_of(connection: psycopg.Connection, table: str) -> list[Row]:
    found = connection.execute(f"SELECT to_jsonb({table}) FROM {table}".encode()).fetchall()
    return [row for (row,) in found]


def folded(connection: psycopg.Connection, table: str) -> Fold:
    fold = Fold()
    for number, row in enumerate(rows_of(connection, table)):
        fold.apply(change("c", table, {"n": number}, after=row))
    return fold


@pytest.mark.parametrize("table", TABLES)
def test_the_same_rows_compare_equal(connection: psycopg.Connection, table: str) -> None:
    comparison = compare(connection, folded(connection, table).rows(table), table)
    assert comparison.equal
    assert comparison.rows == len(rows_of(connection, table)) > 0


def test_a_different_value_is_one_missing_and_one_surplus_row(
    connection: psycopg.Connection,
) -> None:
    fold = folded(connection, "customers")
    fold.apply(change("u", "customers", {"n": 0}, after={"tags": ["other"]}))
    total = len(rows_of(connection, "customers"))
    assert compare(connection, fold.rows("customers"), "customers") == Comparison("customers", total, 1, 1)


def test_missing_and_surplus_rows_are_counted(connection: psycopg.Connection) -> None:
    fold = folded(connection, "order_items")
    fold.apply(change("d", "order_items", {"n": 0}))
    assert compare(connection, fold.rows("order_items"), "order_items").missing == 1
    fold = folded(connection, "order_items")
    fold.apply(change("c", "order_items", {"n": -1}, after=fold.rows("order_items")[0]))
    assert compare(connection, fold.rows("order_items"), "order_items").surplus == 1


def test_rows_rolled_back_at_savepoints_are_not_in_the_table(connection: psycopg.Connection) -> None:
    skus = {row["sku"] for row in rows_of(connection, "supplier_prices")}
    rolled_back = {
        key[0]
        for each in transactions(1, 60)
        for table, key in each.rolled_back_keys
        if table == "supplier_prices"
    }
    assert rolled_back
    assert not skus & rolled_back
