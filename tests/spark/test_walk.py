"""The Python of docs/spark.md, docs/spark-operations.md and README.md, on the tests' servers and session."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.docs.pages import blocks
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.relays import Relay
from tests.spark.handmade_records import rows

LARGE = "x" * 9000  # stored out of line (TOAST), so an update may omit it


def test_every_block_of_the_pages_runs(
    spark: SparkSession,
    new_relay: NewRelay,
    database: Database,
    tmp_path: Path,
    warehouse: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, price numeric(10,2), note text)")
    database.execute("ALTER TABLE orders ALTER note SET STORAGE EXTERNAL")
    database.execute(f"INSERT INTO orders VALUES (4, NULL, '{LARGE}')")
    relay = new_relay().start().wait_streaming()
    database.execute("INSERT INTO orders VALUES (1, 9.50), (2, 3); UPDATE orders SET price = 4 WHERE id = 2")
    database.execute("DELETE FROM orders WHERE id = 1; INSERT INTO orders VALUES (3, NULL)")
    load_earlier_rows(database)
    relay.caught_up()
    ours = {
        "localhost:9092": relay.kafka.bootstrap,
        '"app.': f'"{relay.prefix}.',
        '"app"': f'"{relay.prefix}"',
        'warehouse="lake"': f'warehouse="{warehouse}"',
        '"lake/': f'"{tmp_path}/',
        "lake.orders": f"lake_{relay.prefix}.orders",
    }
    reader: dict[str, Any] = {}
    for page in ("docs/spark.md", "docs/spark-operations.md"):  # the second goes on where the first ended
        for block in (block for block in blocks("python") if block.page == page):
            text = block.text
            for theirs, here in ours.items():
                text = text.replace(theirs, here)
            exec(compile(text, str(block), "exec"), reader)
    printed = capsys.readouterr().out
    assert follow_readme(relay, tmp_path, warehouse) == rows(spark.table(f"lake_{relay.prefix}.orders"))
    assert f"{relay.prefix}.public.orders from" in printed
    assert "|     3| 4.00|" in printed
    assert "pgrelay_mirror_running" in printed
    mirrored = spark.table(f"lake_{relay.prefix}.orders")
    assert {tuple(map(str, row)) for row in rows(mirrored)} == {
        ("2", "4.00", "None"),
        ("3", "None", "None"),
        ("4", "None", LARGE),
    }


def load_earlier_rows(database: Database) -> None:
    """Load the earlier rows as the page does; each statement commits."""
    block, _of_a_table_without_a_key = (block for block in blocks("sql") if block.page == "docs/spark.md")
    for statement in block.text.split(";"):
        if statement.strip():
            database.execute(statement)


def follow_readme(relay: Relay, folder: Path, warehouse: Path) -> Counter[tuple[Any, ...]]:
    """The rows of the table that the README's lines create, once they have applied everything."""
    [block] = [block for block in blocks("python") if block.page == "README.md"]
    name = f"readme_{relay.prefix}.orders"
    text = block.text.replace("kafka-1:9092", relay.kafka.bootstrap).replace("/lake/", f"{folder}/readme")
    text = text.replace('warehouse="/lake"', f'warehouse="{warehouse}"')
    text = text.replace('"shop', f'"{relay.prefix}').replace("lake.orders", name)
    assert "query.awaitTermination()" in text  # a script would end, and the query with it
    text = text.replace("query.awaitTermination()", "query.processAllAvailable()")
    reader: dict[str, Any] = {}
    try:
        exec(compile(text, str(block), "exec"), reader)
    finally:
        reader["query"].stop()
    return rows(reader["spark"].table(name))
