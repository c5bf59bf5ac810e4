"""Schemas from the catalogue and from the relay compared, for types that only a catalogue describes."""

from typing import Any

import pytest

from pgrelay import spark as pg
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database


@pytest.mark.parametrize(
    "choices",
    [{}, {"numeric": "precise", "time": "debezium", "binary": "hex", "json": "inline"}],
    ids=["defaults", "others"],
)
def test_user_defined_types_equal_those_that_the_relay_announces(
    new_relay: NewRelay, database: Database, choices: dict[str, Any]
) -> None:
    """Arrays of domains once had the domain's name and were strings, or base64 for decimals."""
    database.execute(
        "CREATE EXTENSION IF NOT EXISTS hstore; CREATE DOMAIN cents AS numeric(9,2);"
        "CREATE DOMAIN pairs AS hstore; CREATE DOMAIN board AS int[][]; CREATE DOMAIN small_board AS board;"
        "CREATE TYPE mood AS ENUM ('sad'); CREATE DOMAIN moods AS mood;"
        "CREATE TABLE t (id int PRIMARY KEY, a cents[], b cents[][], c pairs[], d board, e small_board,"
        " f board[], g moods[], h timestamp(3)[], i hstore[], j cents, k mood[], l int4range)"
    )
    relay = new_relay(records=choices).start().wait_streaming()
    database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    (record,) = (record.json for record in relay.read(f"{relay.prefix}.schema"))
    catalogued = pg.postgres_schemas(database.dsn, relay.prefix, **choices)[relay.topic("t")]
    assert [
        (column.name, column.type_name, column.type_modifier, column.encoding)
        for column in catalogued.columns
    ] == [
        (column["name"], column["type_name"], column["type_modifier"], column["encoding"])
        for column in record["columns"]
    ]


def test_in_avro_arrays_have_the_dimensions_of_their_domains(database: Database) -> None:
    database.execute(
        "CREATE DOMAIN cents AS numeric(9,2); CREATE DOMAIN board AS int[][]; CREATE DOMAIN small AS board;"
        "CREATE TABLE t (a cents[], b cents[][], c board, d small, e board[])"
    )
    (schema,) = pg.postgres_schemas(database.dsn, "app", format="avro").values()
    assert [column.encoding for column in schema.columns] == [
        "array<decimal(9,2)>",
        "array<array<decimal(9,2)>>",
        "array<array<int>>",
        "array<array<int>>",
        "array<array<array<int>>>",
    ]


def test_tables_that_would_share_a_topic_hide_no_other(database: Database) -> None:
    """For instance, tables that nobody publishes."""
    database.execute(
        "CREATE SCHEMA app; CREATE SCHEMA app_x; CREATE TABLE orders (id int PRIMARY KEY);"
        "CREATE TABLE app.x_y (id int); CREATE TABLE app_x.y (id int)"
    )
    assert list(pg.postgres_schemas(database.dsn, "shop")) == ["shop.public.orders"]
