"""Good tables and publications, which tests then change for the worse."""

from dataclasses import replace
from typing import Any

from pgrelay.check.table_queries import Published, Table

GOOD = Table(
    oid=1,
    schema="public",
    name="orders",
    quoted="public.orders",
    identity="d",
    primary_key=("id",),
    deferrable=False,
    identity_index=(),
)


def table(name: str = "orders", oid: int = 1, **changes: Any) -> Table:
    return replace(GOOD, name=name, quoted=f"public.{name}", oid=oid, **changes)


def published(*tables: Table, **changes: Any) -> Published:
    every = Published(tables, tables, updates_published=frozenset(table.oid for table in tables))
    return replace(every, **changes)
