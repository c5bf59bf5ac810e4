"""Extreme values of every type on real servers: text compared with binary, and both with SQL functions."""

import base64
import json
import random
import struct
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg import pq, sql

from pgrelay.encode.binary.addresses import inet_text
from pgrelay.encode.binary.values import binary_encoding
from pgrelay.encode.encodings import Encodings
from pgrelay.encode.types import ColumnType, builtin_type
from pgrelay.encode.values.floats import float4_text, float8_text
from pgrelay.encode.values.text import text_encoding
from pgrelay.postgres.connection import PIN
from tests.encode.json_values import ALL_CHOICES, built_in, from_binary, from_text
from tests.integration.databases import Database
from tests.integration.extreme_values import VALUES, values_of
from tests.integration.servers import on_all_versions, on_full_versions

Connection = psycopg.Connection[Any]
TEXT, BINARY = 0, 1
DEBEZIUM = Encodings(time="debezium")
PRECISE = Encodings(numeric="precise")

# Types that no column can have, or that were removed before PostgreSQL 12.
NOT_OURS = {
    *("pg_node_tree", "pg_ddl_command", "pg_ndistinct", "pg_dependencies", "pg_mcv_list"),
    *("pg_brin_bloom_summary", "pg_brin_minmax_multi_summary"),
    *("smgr", "abstime", "reltime", "tinterval", "_abstime", "_reltime", "_tinterval", "opaque", "unknown"),
}


@pytest.fixture
def session(database: Database) -> Iterator[Connection]:
    """A session with the relay's own settings."""
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(PIN)
        yield connection


def send(session: Connection, expression: str, form: int) -> tuple[int, int, bytes]:
    """The OID, type modifier and bytes of an expression's value, in text or binary."""
    result = session.pgconn.exec_params(f"SELECT {expression}".encode(), [], result_format=form)
    if result.status != pq.ExecStatus.TUPLES_OK:
        raise psycopg.OperationalError(f"{expression}: {result.error_message.decode()}")
    value = result.get_value(0, 0)
    assert value is not None
    return result.ftype(0), result.fmod(0), value


def differences(session: Connection, expression: str, column: ColumnType | None = None) -> list[str]:
    """Each setting under which the expression's value gives different JSON from text and from binary."""
    oid, typmod, text = send(session, expression, TEXT)
    _, _, binary = send(session, expression, BINARY)
    column = column or built_in(oid, typmod)
    if binary_encoding(column, Encodings()) is None:
        return [f"{expression}: its binary form is not known"]
    found = []
    padded = session.info.server_version >= 190000
    element = column.element_type() if column.is_array else column
    # One of the choices that give the same encoding: a number of 131,072 digits takes a fifth of a second.
    distinct = {text_encoding(element, choices): choices for choices in ALL_CHOICES}
    for choices in (replace(each, padded_lsn=padded) for each in distinct.values()):
        of_text, of_binary = from_text(column, text, choices), from_binary(column, binary, choices)
        if of_text != of_binary:
            found.append(f"{expression}, {choices}: {of_text!r} but {of_binary!r}")
    return found


def cast(session: Connection, value: str, name: str) -> str:
    return f"{sql.Literal(value).as_string(session)}::{name}"


def has_xml(session: Connection) -> bool:
    try:
        session.execute("SELECT '<a/>'::xml")
    except psycopg.errors.FeatureNotSupported:
        return False
    return True


@on_full_versions
def test_text_and_binary_give_the_same_json(session: Connection, version: str) -> None:
    found: list[str] = []
    xml = has_xml(session)
    for name, value in values_of(int(version)):
        if name == "xml" and not xml:
            continue
        item = cast(session, value, name)
        found += differences(session, item)
        found += differences(session, f"array[{item}]")
        found += differences(session, f"array[[null, {item}], [{item}, {item}]]")
    for name in VALUES:
        found += differences(session, f"'{{}}'::{name}[]")
        between = ";" if name == "box" else ","
        found += differences(session, f"'[-1:0]={{NULL{between}NULL}}'::{name}[]")
    assert not found


@on_full_versions
def test_every_value_is_valid_json(session: Connection, version: str) -> None:
    xml = has_xml(session)
    for name, value in values_of(int(version)):
        if name == "xml" and not xml:
            continue
        oid, typmod, text = send(session, f"array[{cast(session, value, name)}]", TEXT)
        for choices in ALL_CHOICES:
            json.loads(from_text(built_in(oid, typmod), text, choices), parse_int=str)


@on_all_versions
def test_the_table_of_built_in_types_equals_the_servers(session: Connection) -> None:
    rows = session.execute(
        "SELECT t.oid, t.typname, t.typtype::text, CASE WHEN t.typcategory = 'A' THEN t.typelem ELSE 0 END,"
        " coalesce(e.typdelim, ',')::text"
        " FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'"
        " WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.oid < 16384"
        " AND t.typtype IN ('b', 'r', 'm')"
        " AND NOT EXISTS (SELECT FROM pg_class c WHERE c.reltype <> 0 AND c.reltype = t.typelem)"
        " AND NOT EXISTS (SELECT FROM pg_type p WHERE p.oid = t.typelem AND p.typtype = 'p')"
    ).fetchall()
    assert len(rows) > 130
    for oid, name, typtype, element, delimiter in rows:
        if name in NOT_OURS:
            assert builtin_type(oid) is None
            continue
        ours = built_in(oid)
        assert (ours.name, ours.typtype) == (name, typtype)
        if name not in ("int2vector", "oidvector") and typtype == "b":
            assert (ours.element.oid if ours.element else 0) == element
            assert ours.delimiter == delimiter


@pytest.mark.parametrize("name", ["bool", "int2", "int4", "int8", "uuid", "text", "varchar(20)", "name"])
def test_json_equals_to_json(session: Connection, name: str) -> None:
    for value in VALUES[name]:
        item = cast(session, value, name)
        for expression in (item, f"array[{item}]", f"array[[null, {item}], [{item}, {item}]]"):
            oid, typmod, text = send(session, expression, TEXT)
            expected = send(session, f"to_json({expression})", TEXT)[2]
            assert json.loads(from_text(built_in(oid, typmod), text)) == json.loads(expected)


@pytest.mark.parametrize("name", ["date", "timestamp", "timestamptz"])
def test_iso_times_equal_to_json(session: Connection, name: str) -> None:
    for value in VALUES[name]:
        oid, typmod, text = send(session, cast(session, value, name), TEXT)
        expected = send(session, f"to_json({cast(session, value, name)})", TEXT)[2].replace(b"+00:00", b"Z")
        assert from_text(built_in(oid, typmod), text) == expected


@pytest.mark.parametrize(
    ("name", "epoch"),
    [
        ("time", "extract(epoch FROM {0})"),
        # In one piece it would round the microseconds of the last years.
        ("timestamp", "extract(epoch FROM date_trunc('day', {0})) + extract(epoch FROM ({0})::time)"),
    ],
)
def test_microseconds_equal_extract_epoch(session: Connection, name: str, epoch: str) -> None:
    for value in VALUES[name]:
        if "infinity" in value:
            continue
        item = cast(session, value, name)
        oid, typmod, text = send(session, item, TEXT)
        seconds = Decimal(send(session, epoch.format(item), TEXT)[2].decode())
        assert json.loads(from_text(built_in(oid, typmod), text, DEBEZIUM)) == seconds * 1_000_000


def test_a_timetz_is_shifted_like_at_time_zone(session: Connection) -> None:
    for value in VALUES["timetz"]:
        if value == "24:00:00":  # stays 24:00, as a time does; AT TIME ZONE makes it midnight
            continue
        item = cast(session, value, "timetz")
        _, _, text = send(session, item, TEXT)
        epoch = Decimal(send(session, f"extract(epoch FROM {item} AT TIME ZONE 'UTC')", TEXT)[2].decode())
        assert json.loads(from_text(built_in(1266), text, DEBEZIUM)) == epoch * 1_000_000


def test_days_equal_the_difference_of_dates(session: Connection) -> None:
    for value in VALUES["date"]:
        if "infinity" in value:
            continue
        item = cast(session, value, "date")
        _, _, text = send(session, item, TEXT)
        assert (
            from_text(built_in(1082), text, DEBEZIUM)
            == send(session, f"{item} - '1970-01-01'::date", TEXT)[2]
        )


@on_full_versions
def test_precise_numerics_equal_the_servers(session: Connection, version: str) -> None:
    for name, value in values_of(int(version)):
        if not name.startswith("numeric") or "N" in value or "y" in value:
            continue
        oid, typmod, text = send(session, cast(session, value, name), TEXT)
        decoded = json.loads(from_text(built_in(oid, typmod), text, PRECISE))
        if isinstance(decoded, dict):
            scale, unscaled = decoded["scale"], decoded["value"]
        else:
            scale, unscaled = ((typmod - 4 & 0x7FF) ^ 1024) - 1024, decoded
        number = int.from_bytes(base64.b64decode(unscaled), "big", signed=True)
        assert Decimal((number < 0, tuple(map(int, digits_of(abs(number)))), -scale)) == Decimal(
            text.decode()
        )


def digits_of(number: int) -> str:
    """Decimal digits of any length: str() stops at 4,300."""
    if number < 10**4000:
        return str(number)
    high, low = divmod(number, 10**4000)
    return digits_of(high) + f"{low:04000}"


def test_bytea_and_money_equal_the_servers_casts(session: Connection) -> None:
    for value in VALUES["bytea"]:
        item = cast(session, value, "bytea")
        _, _, text = send(session, item, TEXT)
        base64_ = send(session, f"encode({item}, 'base64')", TEXT)[2].replace(b"\n", b"")
        assert from_text(built_in(17), text) == b'"' + base64_ + b'"'
        hexadecimal = send(session, f"encode({item}, 'hex')", TEXT)[2]
        assert from_text(built_in(17), text, Encodings(binary="hex")) == b'"' + hexadecimal + b'"'
    for value in VALUES["money"]:
        item = cast(session, value, "money")
        _, _, text = send(session, item, TEXT)
        assert from_text(built_in(790), text) == b'"' + send(session, f"{item}::numeric", TEXT)[2] + b'"'


class TestOurOwnTypes:
    """Types defined in a database, which the caller reads from its catalogue."""

    @staticmethod
    def of(session: Connection, name: str, **more: Any) -> ColumnType:
        row = session.execute("SELECT oid, typname FROM pg_type WHERE oid = %s::regtype", [name]).fetchone()
        assert row is not None
        return ColumnType(row[0], row[1], **more)

    @on_full_versions
    def test_types_of_extensions_give_the_same_json_from_text_and_binary(self, session: Connection) -> None:
        for extension in ("hstore", "citext", "ltree"):
            session.execute(f"CREATE EXTENSION {extension}".encode())
        hstore = self.of(session, "hstore")
        hstores = self.of(session, "hstore[]", element=hstore)
        for pairs in ("", '"a"=>"1", "b"=>NULL', r'"q\"k"=>"b\\s,\"", ""=>"é, =>"'):
            item = cast(session, pairs, "hstore")
            assert not differences(session, item, hstore)
            assert not differences(session, f"array[{item}, null]", hstores)
            ours = json.loads(from_text(hstore, send(session, item, TEXT)[2]))
            assert ours == json.loads(send(session, f"hstore_to_json({item})", TEXT)[2])
        for text in VALUES["text"]:
            assert not differences(session, cast(session, text, "citext"), self.of(session, "citext"))
        assert not differences(session, "'a.b_1.C'::ltree", self.of(session, "ltree"))
        assert not differences(session, "'a.*{1,2}.!b|c'::lquery", self.of(session, "lquery"))
        assert not differences(session, "'a & !b*@'::ltxtquery", self.of(session, "ltxtquery"))

    @on_full_versions
    def test_enums_and_ranges_give_the_same_json_from_text_and_binary(self, session: Connection) -> None:
        session.execute("CREATE TYPE mood AS ENUM ('sad', 'very \"happy\"', '')")
        session.execute("CREATE TYPE moodrange AS RANGE (subtype = mood)")
        session.execute('CREATE TYPE textrange AS RANGE (subtype = text, collation = "C")')
        session.execute("CREATE TYPE floatrange AS RANGE (subtype = float8)")
        mood = self.of(session, "mood", typtype="e")
        ranges = self.of(session, "moodrange", typtype="r", element=mood)
        assert not differences(session, "'very \"happy\"'::mood", mood)
        moods = self.of(session, "mood[]", element=mood)
        assert not differences(session, "array['sad', 'very \"happy\"', '', null]::mood[]", moods)
        assert not differences(session, "moodrange('sad', 'very \"happy\"')", ranges)
        textrange = self.of(session, "textrange", typtype="r", element=built_in(25))
        for text in VALUES["text"]:
            bound = cast(session, text, "text")
            assert not differences(session, f"textrange({bound}, null)", textrange)
        floatrange = self.of(session, "floatrange", typtype="r", element=built_in(701))
        assert not differences(session, "floatrange('-Infinity', 1e23)", floatrange)

    @on_full_versions
    def test_composites_are_text_and_unknown_in_binary(self, session: Connection) -> None:
        session.execute("CREATE TYPE address AS (street text, number int)")
        address = self.of(session, "address", typtype="c")
        text = send(session, "row('a \"b\"', 1)::address", TEXT)[2]
        assert json.loads(from_text(address, text)) == '("a ""b""",1)'
        assert binary_encoding(address, Encodings()) is None


@on_full_versions
def test_floats_have_the_servers_digits(session: Connection) -> None:
    """Powers of two and of ten with their neighbours, then random bits and round numbers."""
    chance = random.Random(20261120)
    doubles = [(exponent << 52) + near for exponent in range(1, 2047) for near in (-1, 0, 1)]
    doubles += [bits_of(float(f"{digit}e{power}")) for digit in range(1, 100) for power in range(-5, 40)]
    doubles += [chance.getrandbits(64) for _ in range(20_000)]
    check_floats(session, 701, ">Q", ">d", doubles)
    reals = [(exponent << 23) + near for exponent in range(1, 255) for near in (-1, 0, 1)]
    reals += [1 << bit for bit in range(23)]
    reals += [chance.getrandbits(32) for _ in range(20_000)]
    check_floats(session, 700, ">I", ">f", reals)


def bits_of(number: float) -> int:
    return int.from_bytes(struct.pack(">d", number), "big")


def check_floats(session: Connection, oid: int, bits: str, layout: str, numbers: list[int]) -> None:
    """Send the numbers in binary, let the server print them, and compare with our own text."""
    packed = [struct.pack(bits, number) for number in numbers]
    size = struct.pack(">i", len(packed[0]))
    array = struct.pack(">5i", 1, 0, oid, len(packed), 1) + b"".join(size + number for number in packed)
    array_oid = {700: 1021, 701: 1022}[oid]
    result = session.pgconn.exec_params(
        b"SELECT array_to_string($1, ' ')", [array], [array_oid], param_formats=[BINARY]
    )
    assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
    text = float4_text if oid == 700 else float8_text
    ours = [text(struct.unpack(layout, number)[0]) for number in packed]
    servers = (result.get_value(0, 0) or b"").split(b" ")
    assert [pair for pair in zip(ours, servers, strict=True) if pair[0] != pair[1]] == []


@on_full_versions
def test_ipv6_is_shortened_like_the_server(session: Connection) -> None:
    chance = random.Random(20261120)
    addresses = [":".join(chance.choices(["0", "ffff", "1", "a0b"], [6, 1, 1, 1], k=8)) for _ in range(5_000)]
    rows = session.execute("SELECT host(a), inet_send(a) FROM unnest(%s::inet[]) a", [addresses]).fetchall()
    assert [row for row in rows if inet_text(row[1]) != row[0].encode()] == []
