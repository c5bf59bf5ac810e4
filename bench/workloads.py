"""The workloads: tables, and changes to drain. Every row is changed once, and has its own key."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

ORDER_COLUMNS = """id bigint PRIMARY KEY, customer int, name text, email text, amount numeric(12,2),
    quantity int, paid boolean, at timestamptz, day date, ref uuid, note text"""

ORDER = """i, i % 1000, 'Jane Q. Public ' || i, 'jane.' || i || '@example.com', (i % 10000) / 100.0, i % 9,
    i % 2 = 0, now(), current_date, '8f14e45f-ceea-467f-a9a1-5e6c0b6d1c11'::uuid,
    'a somewhat longer note with text in it, to fill'"""

_INSERT = f"INSERT INTO orders SELECT {ORDER} FROM generate_series(low, high) AS i;"

_WIDE_COLUMNS = ", ".join(f"i{n} int, t{n} text, n{n} numeric(12,2)" for n in range(33))
_WIDE_ROW = ", ".join(f"i + {n}, 'text {n} of ' || i, (i % 10000) / 100.0" for n in range(33))

_DOCUMENT = """jsonb_build_object('id', i, 'name', 'Jane Q. Public', 'tags', '["new", "paid"]'::jsonb,
    'address', jsonb_build_object('city', 'Bern')), E'Please leave it "at the back door".\\nThank you!'"""

_ARRAYS = """ARRAY['new', 'paid', 'at the back door'], ARRAY[i, i % 20, 300, 4711, 47110]"""

_MANY = 1000
_MANY_INSERT = f"""
    FOR part IN 0..9 LOOP
        EXECUTE format('INSERT INTO orders_%s SELECT {ORDER.replace("'", "''").replace("%", "%%")}
            FROM generate_series($1, $2) AS i', (low / 50 + part) % {_MANY})
        USING low + 50 * part, low + 50 * part + 49;
    END LOOP;"""


@dataclass(frozen=True, slots=True)
class Workload:
    """`change` is a transaction's PL/pgSQL for the rows `low` to `high`; `setup` is SQL that runs before the
    slots are created, for the rows 1 to `{rows}`. `per_transaction` None: all rows in one."""

    name: str
    what: str
    rows: int
    change: str
    setup: str = f"CREATE TABLE orders ({ORDER_COLUMNS})"
    per_transaction: int | None = 500
    tables: tuple[str, ...] = ("orders",)
    records_a_row: int = 1

    @property
    def setup_sql(self) -> str:
        return self.setup.format(rows=self.rows)

    @property
    def load_sql(self) -> str:
        """One SQL statement that runs all transactions."""
        return f"""DO $$ DECLARE low bigint; high bigint; BEGIN
            FOR low IN 1..{self.rows} BY {self.per_transaction or self.rows} LOOP
                high := least(low + {self.per_transaction or self.rows} - 1, {self.rows});
                {self.change}
                COMMIT;
            END LOOP;
        END $$"""

    def scaled(self, scale: float) -> "Workload":
        """The same workload with more or fewer rows, in whole transactions of 500."""
        return replace(self, rows=max(1, round(self.rows * scale / 500)) * 500)


def _tables(names: Iterable[str]) -> str:
    return ";".join(f"CREATE TABLE {name} ({ORDER_COLUMNS})" for name in names)


_MANY_TABLES = tuple(f"orders_{n}" for n in range(_MANY))
_FILLED = f"""CREATE TABLE orders ({ORDER_COLUMNS});
    INSERT INTO orders SELECT {ORDER} FROM generate_series(1, {{rows}}) AS i"""
_TOASTED = f"""CREATE TABLE orders ({ORDER_COLUMNS}, body text);
    ALTER TABLE orders ALTER body SET STORAGE EXTERNAL;
    INSERT INTO orders SELECT {ORDER}, repeat('large ', 500) FROM generate_series(1, {{rows}}) AS i"""
_UPDATE = """UPDATE orders SET amount = amount + 1, quantity = quantity + 1, paid = NOT paid
    WHERE id BETWEEN low AND high;"""

WORKLOADS = (
    Workload("insert", "inserts of 11 columns, 500 a transaction", 400_000, _INSERT),
    Workload("update", "updates of 12 columns, one an unchanged TOAST value", 150_000, _UPDATE, _TOASTED),
    Workload(
        "delete",
        "deletes by primary key, each with a tombstone",
        200_000,
        "DELETE FROM orders WHERE id BETWEEN low AND high;",
        _FILLED,
        records_a_row=2,
    ),
    Workload(
        "wide",
        "inserts of 100 columns",
        40_000,
        f"INSERT INTO wide SELECT i, {_WIDE_ROW} FROM generate_series(low, high) AS i;",
        f"CREATE TABLE wide (id bigint PRIMARY KEY, {_WIDE_COLUMNS})",
        tables=("wide",),
    ),
    Workload(
        "tiny",
        "inserts of 2 columns",
        500_000,
        "INSERT INTO tiny SELECT i, i % 7 FROM generate_series(low, high) AS i;",
        "CREATE TABLE tiny (id bigint PRIMARY KEY, n int)",
        tables=("tiny",),
    ),
    Workload(
        "document",
        "inserts of a key, a jsonb and two lines of text: much to escape in JSON",
        300_000,
        f"INSERT INTO documents SELECT i, {_DOCUMENT} FROM generate_series(low, high) AS i;",
        "CREATE TABLE documents (id bigint PRIMARY KEY, body jsonb, note text)",
        tables=("documents",),
    ),
    Workload(
        "arrays",
        "inserts of a key, a text[] of three and an int[] of five",
        300_000,
        f"INSERT INTO tagged SELECT i, {_ARRAYS} FROM generate_series(low, high) AS i;",
        "CREATE TABLE tagged (id bigint PRIMARY KEY, tags text[], numbers int[])",
        tables=("tagged",),
    ),
    Workload("single", "transactions of one insert of 11 columns", 100_000, _INSERT, per_transaction=1),
    Workload(
        "tables",
        "inserts into 1,000 tables, 10 of them in each transaction",
        150_000,
        _MANY_INSERT,
        _tables(_MANY_TABLES),
        tables=_MANY_TABLES,
    ),
    Workload("streamed", "one transaction, streamed", 500_000, _INSERT, per_transaction=None),
)


def named(name: str) -> Workload:
    """The workload of this name. Raises KeyError."""
    return {workload.name: workload for workload in WORKLOADS}[name]
