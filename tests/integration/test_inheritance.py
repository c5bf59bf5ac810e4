"""Tables that inherit, other than as partitions: each is published by itself, as its name is listed."""

from pathlib import Path

import pytest

from pgrelay.config import load
from pgrelay.plan import plan
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.servers import on_full_versions
from tests.integration.test_plan import path, run_sql

__all__ = ["path"]


@pytest.fixture
def family(database: Database) -> Database:
    database.execute(
        "CREATE TABLE parent (id int PRIMARY KEY);"
        "CREATE TABLE child (PRIMARY KEY (id), note text) INHERITS (parent);"
        "CREATE TABLE grandchild (PRIMARY KEY (id)) INHERITS (child)"
    )
    return database


@on_full_versions
def test_a_publication_that_we_create_holds_only_the_tables_listed(
    family: Database, new_relay: NewRelay, prefix: str
) -> None:
    family.execute("CREATE TABLE days (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    family.execute("CREATE TABLE monday PARTITION OF days FOR VALUES FROM (0) TO (100)")
    tables = ["public.parent", "public.grandchild", "public.days"]
    source = {"dsn": family.dsn, "publications": [prefix], "tables": tables}
    relay = new_relay(source=source).start().wait_streaming()
    family.execute(
        "INSERT INTO parent VALUES (1); INSERT INTO child VALUES (2); INSERT INTO grandchild VALUES (3)"
    )
    family.execute("INSERT INTO days VALUES (4)")
    relay.caught_up()
    assert relay.ids("parent", 1) == [1]
    assert relay.ids("grandchild", 1) == [3]
    assert relay.ids("monday", 1) == [4]
    assert not relay.has_topic(f"{prefix}.public.child")
    found = relay.command("check").stdout
    assert "1 table not published, but the parent is: public.child\n" in found
    assert "if no other relay has them, ALTER PUBLICATION ... ADD TABLE ONLY public.child; or" in found
    assert "not in source.tables" not in found
    family.execute(f"ALTER PUBLICATION {prefix} ADD TABLE ONLY public.child")
    family.execute("INSERT INTO child VALUES (5)")
    relay.caught_up()
    assert relay.ids("child", 1) == [5]
    assert "the parent is" not in relay.command("check").stdout


async def test_two_relays_of_a_plan_have_no_table_in_common(
    family: Database, path: Path, prefix: str
) -> None:
    family.execute(f"CREATE PUBLICATION {prefix} FOR ALL TABLES")
    script = await plan(path, 3)
    run_sql(family, script.partition("-- 2. ")[0])
    configs = [load(path.parent / f"relay-{n}.yaml") for n in (1, 2, 3)]
    names = [config.source.publications[0] for config in configs]
    with family.connect() as connection:
        held = connection.execute(
            "SELECT tablename FROM pg_publication_tables WHERE pubname = ANY (%s) ORDER BY 1", [names]
        ).fetchall()
    assert held == [("child",), ("grandchild",), ("parent",)]
