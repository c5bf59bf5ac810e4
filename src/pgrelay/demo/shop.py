"""A small shop: its tables and its transactions. Pure: the same seed gives the same statements.

The shop keeps the committed state that later transactions depend on, and assigns every row's id itself. So it
knows the keys of the rows that a savepoint rolls back, and that must never reach Kafka.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, LiteralString

from psycopg.types.json import Jsonb

from pgrelay.demo.names import CITIES, FIRST_NAMES, LAST_NAMES, PRODUCTS, TAGS

TABLES: Final = ("customers", "products", "orders", "order_items", "supplier_prices")

SCHEMA: Final = """
CREATE TABLE customers (
    id bigint PRIMARY KEY,
    name text NOT NULL,
    email text NOT NULL UNIQUE,
    city text NOT NULL,
    tags text[] NOT NULL,
    joined_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE products (
    id bigint PRIMARY KEY,
    name text NOT NULL,
    price numeric(10, 2) NOT NULL,
    stock integer NOT NULL,
    attributes jsonb NOT NULL
);
CREATE TABLE orders (
    id bigint PRIMARY KEY,
    customer_id bigint NOT NULL REFERENCES customers,
    status text NOT NULL,
    total numeric(10, 2) NOT NULL,
    shipping jsonb,
    placed_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE orders REPLICA IDENTITY FULL;
CREATE TABLE order_items (
    order_id bigint REFERENCES orders,
    line smallint,
    product_id bigint NOT NULL REFERENCES products,
    quantity integer NOT NULL,
    price numeric(10, 2) NOT NULL,
    PRIMARY KEY (order_id, line)
);
CREATE TABLE supplier_prices (
    sku text PRIMARY KEY,
    supplier text NOT NULL,
    price numeric(10, 2) NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now()
);
"""

# The prices of an import, and those of its last page, which is rolled back.
IMPORTED: Final = 5_000
ROLLED_BACK: Final = 200

# The terminal shows at most this many changes of a transaction; only these count towards `--rows`.
MAX_SHOWN: Final = 10

# A table and the values of its key.
Key = tuple[str, tuple[Any, ...]]

Statement = tuple[LiteralString, tuple[Any, ...]]

_SIGN_UP: Final = "INSERT INTO customers (id, name, email, city, tags) VALUES (%s, %s, %s, %s, %s)"
_ORDER: Final = "INSERT INTO orders (id, customer_id, status, total) VALUES (%s, %s, 'placed', %s)"
_ITEM: Final = "INSERT INTO order_items VALUES (%s, %s, %s, %s, %s)"
_TAKE: Final = "UPDATE products SET stock = stock - %s WHERE id = %s"
_PAY: Final = "UPDATE orders SET status = 'paid' WHERE id = %s"
_SHIP: Final = "UPDATE orders SET status = 'shipped', shipping = %s WHERE id = %s"
_IMPORT: Final = """
INSERT INTO supplier_prices (sku, supplier, price)
SELECT 'HB-' || lpad(n::text, 5, '0'), 'Halden Brothers', (100 + (n * 7919 + %s * 613) %% 20000) / 100.0
FROM generate_series(%s::int, %s::int) n
"""


@dataclass(frozen=True, slots=True)
class Transaction:
    """Statements that commit together: `changes` row changes must arrive, `rolled_back_keys` must not."""

    title: str
    statements: tuple[Statement, ...]
    changes: int
    rolled_back_keys: frozenset[Key] = frozenset()

    @property
    def shown(self) -> int:
        return min(self.changes, MAX_SHOWN)


@dataclass(slots=True)
class _Order:
    lines: int
    status: str = "placed"


def transactions(seed: int, rows: int | None = None) -> Iterator[Transaction]:
    """The shop's transactions, without end, or until exactly `rows` changes have been shown."""
    shop = _Shop(seed)
    left = rows
    for transaction in shop.transactions():
        if left is not None:
            if transaction.shown > left:
                break
            left -= transaction.shown
        yield transaction
    # Fill the rest with transactions of one row, to reach any number exactly.
    for _ in range(left or 0):
        yield shop.sign_up()


class _Shop:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._customers = 0
        self._order_ids = itertools.count(1001)
        self._orders: dict[int, _Order] = {}
        self._imports = 0

    def transactions(self) -> Iterator[Transaction]:
        yield self._add_products()
        for _ in range(5):
            yield self.sign_up()
        yield self._place_order()
        for n in itertools.count(1):
            if n % 60 == 4:
                yield self._import_prices()
            elif n % 15 == 2:
                yield self._refuse_voucher()
            elif n % 30 == 9:
                yield self._close_till(n)
            else:
                yield self._random_action()

    def _random_action(self) -> Transaction:
        actions = (
            self._place_order,
            self._pay,
            self._ship,
            self._cancel,
            self._reprice,
            self._restock,
            self._change_city,
            self.sign_up,
        )
        return self._random.choices(actions, (30, 20, 15, 10, 8, 7, 5, 5))[0]()

    def _add_products(self) -> Transaction:
        insert: LiteralString = "INSERT INTO products VALUES (%s, %s, %s, %s, %s)"
        statements = [
            (insert, (number, name, Decimal(price), 40 + 10 * number, Jsonb(attributes)))
            for number, (name, price, attributes) in enumerate(PRODUCTS, 1)
        ]
        return Transaction("the shelves are filled", tuple(statements), len(statements))

    def sign_up(self) -> Transaction:
        self._customers += 1
        first, last = self._random.choice(FIRST_NAMES), self._random.choice(LAST_NAMES)
        # The number makes the address unique, since names repeat.
        email = f"{last.lower()}{self._customers}@example.com"
        tags = sorted(self._random.sample(TAGS, self._random.randint(0, 2)))
        row = (self._customers, f"{first} {last}", email, self._random.choice(CITIES), tags)
        return Transaction("a customer signs up", ((_SIGN_UP, row),), 1)

    def _place_order(self) -> Transaction:
        order, statements = self._begin_order()
        return Transaction(f"order {order} is placed", tuple(statements), len(statements))

    def _begin_order(self) -> tuple[int, list[Statement]]:
        """An order of one to three products, each subtracted from the stock."""
        order = next(self._order_ids)
        numbers = self._random.sample(range(1, len(PRODUCTS) + 1), self._random.randint(1, 3))
        items = [(n, self._random.randint(1, 4), Decimal(PRODUCTS[n - 1][1])) for n in numbers]
        self._orders[order] = _Order(len(items))
        total = sum(quantity * price for _, quantity, price in items)
        statements: list[Statement] = [(_ORDER, (order, self._random_customer(), total))]
        for line, (product, quantity, price) in enumerate(items, 1):
            statements.append((_ITEM, (order, line, product, quantity, price)))
            statements.append((_TAKE, (quantity, product)))
        return order, statements

    def _refuse_voucher(self) -> Transaction:
        """An order whose free gifts are rolled back, since the voucher has expired."""
        order, statements = self._begin_order()
        changes = len(statements)
        gifts = range(91, 94)
        statements.append(("SAVEPOINT voucher", ()))
        statements += [(_ITEM, (order, line, 1 + line % len(PRODUCTS), 1, Decimal(0))) for line in gifts]
        statements.append(("ROLLBACK TO SAVEPOINT voucher", ()))
        rolled_back = frozenset(("order_items", (order, line)) for line in gifts)
        return Transaction(
            f"order {order} is placed, its voucher refused", tuple(statements), changes, rolled_back
        )

    def _pay(self) -> Transaction:
        order = self._random_order("placed")
        if order is None:
            return self._place_order()
        self._orders[order].status = "paid"
        return Transaction(f"order {order} is paid", ((_PAY, (order,)),), 1)

    def _ship(self) -> Transaction:
        order = self._random_order("paid")
        if order is None:
            return self._pay()
        del self._orders[order]
        carrier = self._random.choice(("Bring", "DHL", "PostNord"))
        shipping = Jsonb({"carrier": carrier, "parcel": f"{carrier[:2].upper()}{order * 7919 % 100_000:05}"})
        return Transaction(f"order {order} is shipped", ((_SHIP, (shipping, order)),), 1)

    def _cancel(self) -> Transaction:
        order = self._random_order("placed")
        if order is None:
            return self._restock()
        lines = self._orders.pop(order).lines
        statements: tuple[Statement, ...] = (
            ("DELETE FROM order_items WHERE order_id = %s", (order,)),
            ("DELETE FROM orders WHERE id = %s", (order,)),
        )
        return Transaction(f"order {order} is cancelled", statements, lines + 1)

    def _reprice(self) -> Transaction:
        factor = Decimal(self._random.randint(90, 112)) / 100
        update: LiteralString = "UPDATE products SET price = round(price * %s, 2) WHERE id = %s"
        return Transaction("a price changes", ((update, (factor, self._random_product())),), 1)

    def _restock(self) -> Transaction:
        update: LiteralString = "UPDATE products SET stock = stock + %s WHERE id = %s"
        amount = self._random.randint(2, 9) * 10
        return Transaction("a product is restocked", ((update, (amount, self._random_product())),), 1)

    def _change_city(self) -> Transaction:
        update: LiteralString = "UPDATE customers SET city = %s, tags = tags || %s WHERE id = %s"
        city = f"{self._random.choice(CITIES)} {self._random.randint(2, 9)}"
        return Transaction("a customer moves", ((update, (city, ["moved"], self._random_customer())),), 1)

    def _close_till(self, number: int) -> Transaction:
        emit: LiteralString = "SELECT pg_logical_emit_message(true, 'till', %s)"
        return Transaction("the till is closed", ((emit, (f"till closed, no. {number}",)),), 1)

    def _import_prices(self) -> Transaction:
        """The large transaction: reload all prices of a supplier, and roll back a last page."""
        # Each import rolls back rows with new keys, so the set of keys counts the rows of all imports.
        first = IMPORTED + 1 + self._imports * ROLLED_BACK
        last = first + ROLLED_BACK - 1
        self._imports += 1
        statements: tuple[Statement, ...] = (
            ("TRUNCATE supplier_prices", ()),
            (_IMPORT, (self._imports, 1, IMPORTED)),
            ("SAVEPOINT page", ()),
            (_IMPORT, (self._imports, first, last)),
            ("ROLLBACK TO SAVEPOINT page", ()),
        )
        rolled_back = frozenset(("supplier_prices", (f"HB-{n:05}",)) for n in range(first, last + 1))
        return Transaction(f"{IMPORTED:,} prices are imported", statements, IMPORTED + 1, rolled_back)

    def _random_customer(self) -> int:
        return self._random.randint(1, self._customers)

    def _random_product(self) -> int:
        return self._random.randint(1, len(PRODUCTS))

    def _random_order(self, status: str) -> int | None:
        orders = [number for number, order in self._orders.items() if order.status == status]
        return self._random.choice(orders) if orders else None
