"""Plans for real databases: how tables are split, files that load and pass a check, and a live handover."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pgrelay.check import check
from pgrelay.config import Config, load
from pgrelay.errors import SetupError
from pgrelay.plan import plan
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.slots import wait_free
from tests.integration.relays import Relay
from tests.integration.servers import KafkaServer, on_all_versions, on_full_versions
from tests.integration.waiting import wait_until

SHOP = """
    CREATE TABLE customers (id int PRIMARY KEY, name text);
    CREATE TABLE orders (id int PRIMARY KEY, customer int REFERENCES customers, note text);
    CREATE TABLE events (id bigserial PRIMARY KEY, body text);
    CREATE TABLE "odd Name" (id int PRIMARY KEY);
"""
CUSTOMERS = ("public.customers", "public.orders")


@pytest.fixture
def shop(database: Database) -> Database:
    database.execute(SHOP)
    return database


@pytest.fixture
def path(database: Database, kafka: KafkaServer, prefix: str, tmp_path: Path) -> Path:
    """A configuration of the database, as its owner might write it."""
    path = tmp_path / "relay.yaml"
    path.write_text(
        f"# ours\nsource:\n  dsn: {database.dsn}  # the shop\n  slot: {prefix}\n"
        f"  publications: [{prefix}]\nsink:\n  kafka:\n    bootstrap.servers: {kafka.bootstrap}\n"
        f"records:\n  prefix: {prefix}\nhttp:\n  listen: null\n"
    )
    return path


def count_writes(database: Database, statement: str, table: str) -> None:
    """Run the statement, and wait until the server's statistics count its writes."""
    with database.connect() as connection:
        connection.execute(statement.encode())
        counted = "SELECT n_tup_ins > 0 FROM pg_stat_all_tables WHERE relid = %s::regclass"

        def there() -> bool:
            row = connection.execute(counted, [table]).fetchone()
            return row is not None and row[0]

        wait_until(there, f"the writes of {table} to be counted")


def parts(path: Path, count: int) -> list[Config]:
    return [load(path.parent / f"relay-{n}.yaml") for n in range(1, count + 1)]


def run_sql(database: Database, script: str) -> list[list[Any]]:
    """The first column of each result, statement by statement."""
    with database.connect() as connection:
        cursor = connection.execute(script.encode())
        found = []
        while True:
            found.append([row[0] for row in cursor.fetchall()] if cursor.description else [])
            if not cursor.nextset():
                return found


def step(script: str, number: int) -> str:
    """One of the numbered steps of a plan's script."""
    return script.split(f"-- {number}. ")[1].partition(f"-- {number + 1}. ")[0].partition("\n")[2]


@on_all_versions
async def test_tables_are_split_by_volume(shop: Database, path: Path) -> None:
    count_writes(
        shop, "INSERT INTO events (body) SELECT repeat('x', 500) FROM generate_series(1, 2000)", "events"
    )
    count_writes(shop, "INSERT INTO customers VALUES (1, 'Ada'); INSERT INTO orders VALUES (1, 1)", "orders")
    told = await plan(path, 2)
    found = parts(path, 2)
    assert sorted(part.source.tables for part in found) == [
        ('public."odd Name"', *CUSTOMERS),
        ("public.events",),
    ]
    assert [part.source.slot[-2:] for part in found] == ["_1", "_2"]
    assert [part.source.messages for part in found] == [True, False]
    assert all(part.source.create for part in found), "nothing exists yet, so each relay creates its own"
    assert "100% of the rows' WAL" in told or "99% of the rows' WAL" in told
    assert (path.parent / "relay-1.yaml").read_text().startswith("# ours\nsource:\n")
    for part in found:
        assert [finding for finding in await check(part) if finding.level != "ok"] == []


async def test_a_tables_name_adds_no_statement_to_a_plan(database: Database, path: Path) -> None:
    database.execute('CREATE TABLE kept (id int); CREATE TABLE "x\n; DROP TABLE kept; --" (id int)')
    told = await plan(path, 2)
    assert "DROP TABLE kept" in told
    assert all(not line or line.startswith("-- ") for line in told.split("\n"))


async def test_large_values_stored_out_of_line_count(shop: Database, path: Path) -> None:
    shop.execute("ALTER TABLE orders ALTER note SET STORAGE EXTERNAL")
    count_writes(
        shop, "INSERT INTO orders SELECT g, NULL, repeat('x', 50000) FROM generate_series(1, 50) g", "orders"
    )
    count_writes(shop, "INSERT INTO events (body) SELECT 'x' FROM generate_series(1, 2000)", "events")
    told = await plan(path, 2)
    share = next(line for line in told.splitlines() if re.search(r"2\.[345]\d MiB", line))
    assert "2 tables" in share


async def test_without_statistics_tables_are_split_by_number(shop: Database, path: Path) -> None:
    told = await plan(path, 3)
    assert "each relay gets about as many tables" in told
    assert sorted(len(part.source.tables) for part in parts(path, 3)) == [1, 1, 2]


@on_full_versions
async def test_the_new_publications_have_the_old_ones_options(
    shop: Database, path: Path, prefix: str, version: str
) -> None:
    narrow = " (id, body) WHERE (id > 0)" if int(version) >= 15 else ""
    options = "WITH (publish = 'insert, update', publish_via_partition_root = true)"
    shop.execute(
        f'CREATE PUBLICATION {prefix} FOR TABLE customers, orders, "odd Name", events{narrow} {options}'
    )
    told = await plan(path, 2)
    run_sql(shop, step(told, 1))
    run_sql(shop, step(told, 2))
    columns = "tablename, attnames, rowfilter" if int(version) >= 15 else "tablename"
    query = f"SELECT {columns} FROM pg_publication_tables WHERE pubname {{}} ORDER BY 1"
    with shop.connect() as connection:
        before = connection.execute(query.format(f"= '{prefix}'").encode()).fetchall()
        after = connection.execute(query.format(f"LIKE '{prefix}__'").encode()).fetchall()
        kinds = connection.execute(
            "SELECT DISTINCT pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot FROM pg_publication"
        ).fetchall()
    assert after == before
    assert kinds == [(True, True, False, False, True)]
    for part in parts(path, 2):
        assert not part.source.create
        assert [finding for finding in await check(part) if finding.level == "error"] == []


async def test_partitions_stay_with_their_root(database: Database, path: Path) -> None:
    database.execute(
        "CREATE TABLE days (day date PRIMARY KEY) PARTITION BY RANGE (day);"
        "CREATE TABLE y2020 PARTITION OF days FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');"
        "CREATE TABLE y2021 PARTITION OF days FOR VALUES FROM ('2021-01-01') TO ('2022-01-01');"
        "CREATE TABLE other (id int PRIMARY KEY)"
    )
    await plan(path, 2)
    assert sorted(part.source.tables for part in parts(path, 2)) == [("public.days",), ("public.other",)]


async def test_a_partition_published_alone_stays_alone(database: Database, path: Path, prefix: str) -> None:
    database.execute(
        "CREATE TABLE days (day date PRIMARY KEY) PARTITION BY RANGE (day);"
        "CREATE TABLE y2020 PARTITION OF days FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');"
        "CREATE TABLE y2021 PARTITION OF days FOR VALUES FROM ('2021-01-01') TO ('2022-01-01');"
        f"CREATE PUBLICATION {prefix} FOR TABLE y2020"
    )
    await plan(path, 1)
    assert parts(path, 1)[0].source.tables == ("public.y2020",)


async def test_foreign_keys_tie_tables_unless_ignored(shop: Database, path: Path) -> None:
    with pytest.raises(
        SetupError, match=r"tie the 4 published tables into 3 groups, fewer than 4; .*-foreign-"
    ):
        await plan(path, 4)
    await plan(path, 4, ignore_foreign_keys=True)
    assert [len(part.source.tables) for part in parts(path, 4)] == [1, 1, 1, 1]


async def test_plans_that_can_not_work_are_refused(
    shop: Database, path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SetupError, match="5 is more than the 4 published tables"):
        await plan(path, 5, ignore_foreign_keys=True)
    with pytest.raises(SetupError, match=r"relay\.yaml/folder: can't be created: Not a directory"):
        await plan(path, 1, path / "folder")
    monkeypatch.setenv("PGRELAY_SOURCE__SLOT", f"{prefix}_other")
    with pytest.raises(SetupError, match="unset PGRELAY_SOURCE__SLOT"):
        await plan(path, 2)
    with pytest.raises(SetupError, match="unset PGRELAY_SOURCE__SLOT"):
        await plan(path, 2, path.parent / "new" / "plan")
    assert not (path.parent / "new").exists()
    monkeypatch.delenv("PGRELAY_SOURCE__SLOT")
    assert list(path.parent.glob("relay-*")) == [], "a plan that is refused leaves files behind"
    (path.parent / "relay-2.yaml").write_text("mine")
    with pytest.raises(SetupError, match=r"relay-2\.yaml: exists already"):
        await plan(path, 2)
    assert [file.name for file in path.parent.glob("relay-*")] == ["relay-2.yaml"]
    shop.execute(
        f"CREATE PUBLICATION {prefix} FOR TABLE events WITH (publish = 'insert');"
        f"CREATE PUBLICATION {prefix}_b FOR TABLE orders"
    )
    monkeypatch.setenv("PGRELAY_SOURCE__PUBLICATIONS", f"[{prefix}, {prefix}_b]")
    with pytest.raises(SetupError, match="have different options"):
        await plan(path, 1)


def test_the_command_writes_the_files_and_prints_the_script(shop: Database, path: Path) -> None:
    path.chmod(0o640)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pgrelay", "plan", "--config", str(path), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    done = run("--shards", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"-- {path.parent}/relay-1.yaml: slot ")
    assert os.stat(path.parent / "relay-2.yaml").st_mode & 0o777 == 0o640
    done = run("--shards", "2")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("move it away, or name a folder with --output\n")
    done = run("--shards", "2", "--output", str(path.parent / "new" / "plan"))
    assert (done.returncode, done.stderr) == (0, "")
    assert (path.parent / "new" / "plan" / "relay-2.yaml").exists()
    done = run("--shards", "2", "--output", str(path / "plan"))
    assert (done.returncode, done.stdout) == (2, "")
    cure = "name another with --output"
    assert done.stderr == f"pgrelay: {path}/plan: can't be created: Not a directory; {cure}\n"


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
@on_full_versions
def test_a_live_slot_is_handed_over_without_loss_or_repetition(
    shop: Database, path: Path, prefix: str, new_relay: NewRelay, kafka: KafkaServer, delivery: str
) -> None:
    tables = ("customers", "events")
    number = iter(range(1, 100))

    def write() -> None:
        for table in tables:
            shop.execute(f"INSERT INTO {table} (id) VALUES ({next(number)})")

    old = new_relay(sink={"delivery": delivery}).start().wait_streaming()
    write()
    script = asyncio.run(plan(path, 2))
    assert not any(part.source.create for part in parts(path, 2))
    run_sql(shop, step(script, 1))
    write()
    handover = step(script, 2)
    assert run_sql(shop, handover) == [[], []], "copied while the old relay runs"
    _wait_passed(shop, old, prefix)
    assert old.stop() == 0
    wait_free(shop, prefix)
    write()
    assert [len(rows) for rows in run_sql(shop, handover)] == [1, 1]
    new = [new_relay(f"_{n}", **_sections(path, n, delivery)).start().wait_streaming() for n in (1, 2)]
    write()
    for relay in new:
        relay.caught_up()
        assert relay.stop() == 0
    written = list(range(1, 9))
    for offset, table in enumerate(tables):
        records = new[0].read(f"{prefix}.public.{table}", 4)
        assert [json.loads(record.key or b"")["id"] for record in records] == written[offset::2]


@on_full_versions
async def test_a_slot_that_is_behind_the_publications_is_not_copied(
    shop: Database, path: Path, prefix: str
) -> None:
    shop.execute(f"CREATE PUBLICATION {prefix} FOR ALL TABLES")
    shop.execute(f"SELECT pg_create_logical_replication_slot('{prefix}', 'pgoutput')")
    script = await plan(path, 2)
    run_sql(shop, step(script, 1))
    assert run_sql(shop, step(script, 2)) == [[], []]


@pytest.mark.parametrize("version", ["11"], indirect=True)
async def test_without_slot_copies_new_slots_are_created(shop: Database, path: Path, prefix: str) -> None:
    shop.execute(f"CREATE PUBLICATION {prefix} FOR ALL TABLES")
    shop.execute(f"SELECT pg_create_logical_replication_slot('{prefix}', 'pgoutput')")
    script = await plan(path, 2)
    assert "are relayed twice" in script
    run_sql(shop, step(script, 1))
    assert [len(rows) for rows in run_sql(shop, step(script, 2))] == [1, 1]
    for part in parts(path, 2):
        assert [finding for finding in await check(part) if finding.level == "error"] == []


def _sections(path: Path, n: int, delivery: str) -> dict[str, Any]:
    """The sections of a planned file that the tests' relay does not set itself."""
    written = yaml.safe_load((path.parent / f"relay-{n}.yaml").read_text())
    return {"source": written["source"], "records": written["records"], "sink": {"delivery": delivery}}


def _wait_passed(database: Database, relay: Relay, prefix: str) -> None:
    """Wait until the slot needs no catalogue state from before the new publications."""
    query = (
        "SELECT age(p.xmin) > age(s.catalog_xmin) FROM pg_replication_slots s, pg_publication p "
        f"WHERE s.slot_name = '{prefix}' AND p.pubname = '{prefix}_2'"
    )

    def passed() -> bool:
        with database.connect() as connection:
            # Make the server write now what it writes now and then, which moves the slot's catalog_xmin.
            connection.execute("CHECKPOINT")
            row = connection.execute(query.encode()).fetchone()
        return row is not None and row[0]

    relay.wait_for(passed, "the slot to pass the publications", 60)
