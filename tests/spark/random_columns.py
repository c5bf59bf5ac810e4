"""Columns that come, go, are renamed and widened at random, with rows that fill them."""

import random
from typing import Final

from tests.integration.databases import Database

# A value of each type, in SQL. The text is too large for a row, even compressed, so updates leave it out.
_VALUES: Final = {
    "smallint": "3",
    "int": "5",
    "bigint": "6000000000",
    "numeric(10,2)": "1.25",
    "numeric(14,2)": "123456789.25",
    "real": "1.5",
    "double precision": "2.25",
    "varchar(20)": "'v'",
    "text": "(SELECT string_agg(gen_random_uuid()::text, '') FROM generate_series(1, 200))",
    "boolean": "true",
    "date": "'2020-02-02'",
    "timestamptz": "now()",
    "bytea": r"'\xdead'",
    "jsonb": """'{"b": 1}'""",
    "int[]": "'{1,NULL,3}'",
}
_WIDER: Final = {
    "smallint": "int",
    "int": "bigint",
    "numeric(10,2)": "numeric(14,2)",
    "real": "double precision",
    "varchar(20)": "text",
}
_NAMES: Final = [f"c{number}" for number in range(6)]  # few, so that a column gets the name of a dropped one
_KEYS: Final = {"orders": "id", "lines": "order_id, number", "log": "n", "bag": "n"}


class RandomColumns:
    """Further columns of these tables. `statements` are those that ran, to be shown if a test fails."""

    def __init__(self, database: Database, seed: int) -> None:
        self._random = random.Random(seed)
        self._database = database
        self._types: dict[str, dict[str, str]] = {table: {} for table in _KEYS}
        self.statements: list[str] = []

    def change(self) -> None:
        """Change one table, and write a row, without which the stream would not show a change of columns."""
        table = self._random.choice(list(_KEYS))
        changes = [self._add, self._drop, self._rename, self._widen, self._fill, self._truncate]
        statement = self._random.choices(changes, [5, 3, 4, 3, 4, 1])[0](table)
        if statement is None:
            return
        statements = [statement] if statement.startswith("TRUNCATE") else [statement, self._row(table)]
        self.statements += statements
        with self._database.connect() as connection, connection.transaction():
            for each in statements:
                connection.execute(each.encode())

    def _add(self, table: str) -> str | None:
        name, kind = self._new(table), self._random.choice(list(_VALUES))
        if name is None:
            return None
        self._types[table][name] = kind
        return f"ALTER TABLE {table} ADD COLUMN {name} {kind}"

    def _drop(self, table: str) -> str | None:
        name = self._there(table)
        if name is None:
            return None
        del self._types[table][name]
        return f"ALTER TABLE {table} DROP COLUMN {name}"

    def _rename(self, table: str) -> str | None:
        name, new = self._there(table), self._new(table)
        if name is None or new is None:
            return None
        types = self._types[table]
        self._types[table] = {new if each == name else each: kind for each, kind in types.items()}
        return f"ALTER TABLE {table} RENAME COLUMN {name} TO {new}"

    def _widen(self, table: str) -> str | None:
        name = self._there(table)
        wider = _WIDER.get(self._types[table][name]) if name else None
        if name is None or wider is None:
            return None
        self._types[table][name] = wider
        return f"ALTER TABLE {table} ALTER COLUMN {name} TYPE {wider}"

    def _fill(self, table: str) -> str | None:
        name = self._there(table)
        if name is None or table == "log":  # which has no key: its rows can't be updated
            return None
        first = _KEYS[table].partition(",")[0]
        value = _VALUES[self._types[table][name]]
        return f"UPDATE {table} SET {name} = {value} WHERE {first} % 3 = {self._random.randrange(3)}"

    def _truncate(self, table: str) -> str:
        return f"TRUNCATE {table}"

    def _row(self, table: str) -> str:
        keys = _KEYS[table]
        values = [str(-self._random.randrange(1, 10**9)), *(["1"] if "," in keys else [])]
        types = self._types[table]
        values += [_VALUES[kind] for kind in types.values()]
        return f"INSERT INTO {table} ({', '.join([keys, *types])}) VALUES ({', '.join(values)})"

    def _there(self, table: str) -> str | None:
        names = list(self._types[table])
        return self._random.choice(names) if names else None

    def _new(self, table: str) -> str | None:
        names = [name for name in _NAMES if name not in self._types[table]]
        return self._random.choice(names) if names else None
