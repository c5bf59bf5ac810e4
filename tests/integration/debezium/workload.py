"""One workload over every type and every kind of change, for two relays of the same database."""

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Final

import psycopg
from psycopg import sql

from tests.integration.databases import Database
from tests.integration.extreme_values import values_of

Connection = psycopg.Connection[Any]

# Besides the built-in scalars: types of extensions and of the database, and arrays.
_MORE_VALUES: Final = {
    "hstore": ('"a"=>"1", "b"=>NULL', ""),
    "citext": ("Ada",),
    "ltree": ("a.b.C",),
    "mood": ("sad", 'very "happy"'),
    "positive": ("7",),
    "price": ("1.50",),
    "place": ('("Main St",7)',),
    "bool[]": ("{t,f,NULL}",),
    "int[]": ("{1,NULL,3}", "{}", "{{1,2},{3,4}}", "[-1:0]={5,6}"),
    "bigint[]": ("{9223372036854775807}",),
    "text[]": ('{a,NULL,"NULL","b,c","say \\"hi\\""}', "{{a,b},{c,d}}"),
    "varchar(5)[]": ("{a}",),
    "real[]": ("{1.5,NaN}",),
    "float8[]": ("{1.5,Infinity}",),
    "numeric(5,2)[]": ("{1.50,-2}",),
    "uuid[]": ("{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",),
    "date[]": ("{2026-11-20}",),
    "time[]": ("{14:54:02.5}",),
    "timestamp[]": ('{"2026-11-20 14:54:02.343135"}',),
    "timestamptz[]": ('{"2026-11-20 14:54:02.343135+00"}',),
    "interval[]": ('{"1 day"}',),
    "bytea[]": ('{"\\\\x00ff"}',),
    "jsonb[]": ('{"{\\"a\\": 1}"}',),
    "inet[]": ("{10.0.0.1}",),
    "mood[]": ("{sad,NULL}",),
    "int4range[]": ('{"[1,5)"}',),
    "time(3)": ("14:54:02.5",),
    "timestamp(3)": ("2026-11-20 14:54:02.343",),
    "tsquery": ("'a' & !'b'",),
}

# Keys, each in a table of its own: a key's bytes decide its partition, and what compaction takes for equal.
KEYS: Final = {
    "text": ("Ada", "Žofie", "a\tb", 'say "hi"\\', "a/b <&>'", "\x7f", "\u2028"),
    "varchar(9)": ("\x1f", "😀"),
    "char(5)": ("ab",),
    "name": ("n",),
    "smallint": ("-7",),
    "int": ("7",),
    "bigint": ("9007199254740993",),
    "boolean": ("t",),
    "uuid": ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",),
    "bytea": (r"\x00ff",),
    "inet": ("10.0.0.1/8",),
    "mood": ("sad",),
    "numeric": ("100", "1.50"),
    "numeric(8,2)": ("100", "-1.5"),
    "float8": ("1", "1.5"),
    "date": ("2026-11-20",),
    "time": ("14:54:02.5",),
    "timestamp": ("2026-11-20 14:54:02.343135",),
    "timestamp(3)": ("2026-11-20 14:54:02.343",),
    "timestamptz": ("2026-11-20 14:54:02+00", "2026-11-20 14:54:02.343135+00"),
    "bit(3)": ("101",),
}

# Debezium's task fails at these values, and every retry fails at the same place.
_STOPS_DEBEZIUM: Final = {("interval", "178956970 years 7 mons 2147483647 days 2562047788:00:54.775806")}

SETUP: Final = """
CREATE EXTENSION hstore;
CREATE EXTENSION citext;
CREATE EXTENSION ltree;
CREATE TYPE mood AS ENUM ('sad', 'very "happy"');
CREATE TYPE place AS (street text, number int);
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE DOMAIN price AS numeric(8,2);
CREATE TABLE keyed (id int PRIMARY KEY, name text, big text);
ALTER TABLE keyed ALTER big SET STORAGE EXTERNAL;
CREATE TABLE fully (id int PRIMARY KEY, name text, big text);
ALTER TABLE fully ALTER big SET STORAGE EXTERNAL;
ALTER TABLE fully REPLICA IDENTITY FULL;
CREATE TABLE fully_keyless (name text, n int);
ALTER TABLE fully_keyless REPLICA IDENTITY FULL;
CREATE TABLE keyless (name text, n int);
CREATE TABLE indexed (id int PRIMARY KEY, code int NOT NULL, name text);
CREATE UNIQUE INDEX by_code ON indexed (code);
ALTER TABLE indexed REPLICA IDENTITY USING INDEX by_code;
CREATE TABLE paired (a int, b text, c int, PRIMARY KEY (b, a));
CREATE TABLE toasted (id int PRIMARY KEY, n int, texts text[], bytes bytea, doc jsonb, ints int[],
    uuids uuid[], number numeric, pairs hstore);
ALTER TABLE toasted ALTER texts SET STORAGE EXTERNAL, ALTER bytes SET STORAGE EXTERNAL,
    ALTER doc SET STORAGE EXTERNAL, ALTER ints SET STORAGE EXTERNAL, ALTER uuids SET STORAGE EXTERNAL,
    ALTER number SET STORAGE EXTERNAL, ALTER pairs SET STORAGE EXTERNAL;
CREATE TABLE evolving (id int PRIMARY KEY, a text);
CREATE TABLE defaulted (id int PRIMARY KEY, name text DEFAULT 'none', n int NOT NULL DEFAULT 7);
CREATE TABLE "a b" (id int PRIMARY KEY);
CREATE TABLE a_b (id int PRIMARY KEY);
CREATE TABLE sentinel (id int PRIMARY KEY);
"""

_CHANGES: Final = """
INSERT INTO keyed VALUES (1, 'Ada', repeat('x', 9000)), (2, NULL, NULL);
UPDATE keyed SET name = 'Ada L' WHERE id = 1;
UPDATE keyed SET id = 3 WHERE id = 2;
UPDATE keyed SET id = 4, name = 'moved' WHERE id = 1;
DELETE FROM keyed WHERE id = 3;
TRUNCATE keyed;
INSERT INTO fully VALUES (1, 'Ada', repeat('x', 9000)), (2, NULL, NULL);
UPDATE fully SET name = 'Ada L' WHERE id = 1;
UPDATE fully SET id = 3 WHERE id = 2;
UPDATE fully SET id = 4 WHERE id = 1;
DELETE FROM fully WHERE id = 3;
INSERT INTO fully_keyless VALUES ('a', 1), ('a', 1);
UPDATE fully_keyless SET n = 2;
DELETE FROM fully_keyless;
INSERT INTO keyless VALUES ('a', 1), (NULL, NULL);
INSERT INTO indexed VALUES (1, 10, 'a'), (2, 20, 'b');
UPDATE indexed SET name = 'A' WHERE id = 1;
UPDATE indexed SET code = 11 WHERE id = 1;
UPDATE indexed SET id = 3 WHERE id = 2;
DELETE FROM indexed WHERE id = 1;
INSERT INTO paired VALUES (1, 'x', 1);
UPDATE paired SET c = 2;
UPDATE paired SET b = 'y';
DELETE FROM paired;
INSERT INTO toasted VALUES (1, 1, ARRAY[repeat('x', 9000)], convert_to(repeat('x', 9000), 'UTF8'),
    jsonb_build_object('a', repeat('x', 9000)), array_fill(7, ARRAY[3000]),
    array_fill('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, ARRAY[600]), repeat('7', 9000)::numeric,
    hstore('a', repeat('x', 9000)));
UPDATE toasted SET n = 2;
INSERT INTO evolving VALUES (1, 'a');
ALTER TABLE evolving ADD COLUMN b int DEFAULT 7;
UPDATE evolving SET a = 'b';
ALTER TABLE evolving DROP COLUMN a;
INSERT INTO evolving VALUES (2, 8);
INSERT INTO defaulted VALUES (1, NULL, 1), (2, 'b', 2);
UPDATE defaulted SET name = NULL WHERE id = 2;
DELETE FROM defaulted WHERE id = 1;
INSERT INTO "a b" VALUES (1);
INSERT INTO a_b VALUES (1);
SELECT pg_logical_emit_message(true, 'note', 'in a transaction');
SELECT pg_logical_emit_message(false, 'note', 'in none');
BEGIN; INSERT INTO keyed VALUES (10, 'a'), (11, 'b'); UPDATE keyed SET id = 12 WHERE id = 10; INSERT INTO
    keyless VALUES ('b', 2); SELECT pg_logical_emit_message(true, 'note', 'beside rows'); TRUNCATE keyless,
    keyed; COMMIT;
SELECT pg_replication_origin_create(current_database()),
    pg_replication_origin_session_setup(current_database());
BEGIN; SELECT pg_replication_origin_xact_setup('0/1234', now()); INSERT INTO fully VALUES (5, 'afar'); COMMIT;
SELECT pg_replication_origin_session_reset(), pg_replication_origin_drop(current_database());
"""

# The topics of these tables are compared; `sentinel` only marks the end.
TABLES: Final = (
    *("types", "keyed", "fully", "fully_keyless", "keyless", "indexed"),
    *("paired", "toasted", "evolving", "defaulted", "a b", "a_b"),
)


def key_table(type_name: str) -> str:
    """The table whose key has this type: `key_timestamp_3`."""
    return f"key_{column_name(type_name)}"


def column_name(type_name: str) -> str:
    """The column of `types` that has this type: `numeric_10_2`, `int4_array`."""
    return re.sub(r"\W+", "_", type_name.replace("[]", " array")).strip("_")


def create(database: Database) -> None:
    """Create the tables, and a publication of all tables called `everything`."""
    with database.connect() as connection:
        connection.execute(SETUP.encode())
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(column_name(name)), sql.SQL(name))
            for name in _values(connection)
        )
        connection.execute(sql.SQL("CREATE TABLE types (id int PRIMARY KEY, {})").format(columns))
        for name in KEYS:
            created = sql.SQL("CREATE TABLE {} (id {} PRIMARY KEY)")
            connection.execute(created.format(sql.Identifier(key_table(name)), sql.SQL(name)))
        connection.execute("CREATE PUBLICATION everything FOR ALL TABLES")


def run(database: Database) -> None:
    """Run every line in its own transaction; at the end, insert a row into `sentinel`."""
    with database.connect() as connection:
        for statement in _CHANGES.split(";\n"):
            if statement.strip():
                connection.execute(statement.encode())
        _fill_types(connection)
        for name, values in KEYS.items():
            insert = sql.SQL("INSERT INTO {} VALUES ({}::{})")
            for value in values:
                row = insert.format(sql.Identifier(key_table(name)), sql.Literal(value), sql.SQL(name))
                connection.execute(row)
        connection.execute("INSERT INTO sentinel VALUES (1)")


def _fill_types(connection: Connection) -> None:
    """Row n has each type's n-th value, or null if the type has fewer. Row 0 is all null."""
    values = _values(connection)
    names = sql.SQL(", ").join(sql.Identifier(column_name(name)) for name in values)
    connection.execute("INSERT INTO types (id) VALUES (0)")
    for number, row in enumerate(zip_longest(*values.values()), start=1):
        items = sql.SQL(", ").join(
            sql.SQL("{}::{}").format(sql.Literal(value), sql.SQL(name))
            for name, value in zip(values, row, strict=True)
        )
        connection.execute(sql.SQL("INSERT INTO types (id, {}) VALUES ({}, {})").format(names, number, items))


def _values(connection: Connection) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for name, value in _every_value(connection.info.server_version // 10_000):
        values.setdefault(name, []).append(value)
    return values


def _every_value(version: int) -> Iterator[tuple[str, str]]:
    for name, value in values_of(version):
        # not every build of the server has xml
        if name != "xml" and (name, value) not in _STOPS_DEBEZIUM:
            yield name, value
    for name, more in _MORE_VALUES.items():
        for value in more:
            yield name, value
