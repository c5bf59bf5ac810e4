"""One tuple to one JSON object and its key, for any kinds, names and numbers of columns."""

import json
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from pgrelay.encode.encodings import Encodings
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import Plan, RelationFacts
from pgrelay.encode.rows import OldValue, RowWriter
from pgrelay.encode.selection import Selection
from pgrelay.errors import ProtocolError, RecordError
from pgrelay.wire.pgoutput import Relation, RelationColumn
from tests.encode.encoding import OPTIONS
from tests.encode.json_values import ALL_CHOICES, built_in, from_text
from tests.encode.samples import SAMPLES
from tests.wire.build import BYTEA, INT4, TEXT, UNCHANGED, Binary, Column, Row, tuple_data


def planned(*columns: Column, options: RecordOptions = OPTIONS) -> Plan:
    known = tuple(RelationColumn(key, name, oid, typmod) for name, oid, key, typmod in columns)
    relation = Relation(None, 16384, "public", "orders", "d", known)
    return Plan(relation, RelationFacts(), "app.public.orders", options)


class Rows:
    """A writer and what it wrote last."""

    def __init__(self, plan: Plan, placeholder: bool = False) -> None:
        self.plan = plan
        self.writer = RowWriter(placeholder)

    def write(
        self,
        row: Row,
        key_only: bool = False,
        old: list[OldValue | None] | None = None,
        keep: list[OldValue | None] | None = None,
    ) -> str:
        out = BytesWriter()
        data = b"before" + tuple_data(row)
        assert self.writer.write(out, self.plan, data, len(b"before"), key_only, old, keep) == len(data)
        return out.getvalue().decode()

    @property
    def key(self) -> str:
        return self.writer.key.getvalue().decode()

    @property
    def unchanged(self) -> list[Any]:
        return [json.loads(name) for name in self.writer.unchanged]


ID: Final = Column("id", INT4, key=True)
ORDERS: Final = planned(ID, Column("item", TEXT), Column("photo", BYTEA))


# --- Columns


def test_a_row_and_its_key() -> None:
    rows = Rows(ORDERS)
    assert rows.write(["1", "tea", None]) == '{"id":1,"item":"tea","photo":null}'
    assert (rows.key, rows.unchanged) == ('{"id":1}', [])


def test_text_and_binary_give_the_same() -> None:
    rows = Rows(ORDERS)
    text = rows.write(["1", 'a"\n', "\\x00ff"])
    key = rows.key
    assert rows.write([Binary(b"\0\0\0\1"), Binary(b'a"\n'), Binary(b"\0\xff")]) == text
    assert rows.key == key


def test_an_empty_value_is_not_null() -> None:
    assert Rows(ORDERS).write(["1", "", "\\x"]) == '{"id":1,"item":"","photo":""}'


def test_a_key_may_be_null() -> None:
    rows = Rows(ORDERS)
    rows.write([None, "tea", None])
    assert rows.key == '{"id":null}'


def test_a_row_without_columns() -> None:
    rows = Rows(planned())
    assert (rows.write([]), rows.key) == ("{}", "{}")


def test_a_row_is_appended_to_the_output() -> None:
    out = BytesWriter()
    out.write(b'{"after":')
    RowWriter(False).write(out, ORDERS, tuple_data(["1", None, None]), 0)
    assert out.getvalue() == b'{"after":{"id":1,"item":null,"photo":null}'


def test_no_row_keeps_anything_from_the_one_before() -> None:
    rows = Rows(ORDERS)
    rows.write(["1", UNCHANGED, None])
    rows.write(["2", "tea", None])
    assert (rows.key, rows.unchanged) == ('{"id":2}', [])


def test_a_row_may_have_1600_columns() -> None:
    """Postgres's limit."""
    columns = [Column(f"column_{number}", INT4, key=number % 400 == 0) for number in range(1600)]
    rows = Rows(planned(*columns))
    row = json.loads(rows.write([str(number) for number in range(1600)]))
    assert row == {f"column_{number}": number for number in range(1600)}
    assert rows.key == '{"column_0":0,"column_400":400,"column_800":800,"column_1200":1200}'


texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)


@given(st.dictionaries(texts, st.one_of(st.none(), texts), max_size=8), st.booleans())
def test_any_names_and_texts_come_through(row: dict[str, str | None], key: bool) -> None:
    rows = Rows(planned(*(Column(name, key=key) for name in row)))
    written = rows.write(list(row.values()))
    assert list(json.loads(written).items()) == list(row.items())
    assert json.loads(rows.key) == (row if key else {})


@pytest.mark.parametrize("choices", ALL_CHOICES, ids=str)
def test_every_value_is_written_as_its_types_encoding_gives_it(choices: Encodings) -> None:
    """The fast path in the loop and the converters agree."""
    columns = [Column(f"column_{number}", oid) for number, (oid, _, _) in enumerate(SAMPLES)]
    rows = Rows(planned(*columns, options=replace(OPTIONS, encodings=choices)))
    members = (
        b'"column_%d":%b' % (number, from_text(built_in(oid), value, choices))
        for number, (oid, value, _) in enumerate(SAMPLES)
    )
    written = rows.write([value.decode() for _, value, _ in SAMPLES])
    assert written == (b"{" + b",".join(members) + b"}").decode()


# --- Old keys


def test_an_old_key_has_only_key_columns() -> None:
    rows = Rows(ORDERS)
    assert rows.write(["1", None, None], key_only=True) == '{"id":1}'
    assert rows.key == '{"id":1}'


def test_other_values_in_an_old_key_are_ignored() -> None:
    assert Rows(ORDERS).write(["1", "tea", UNCHANGED], key_only=True) == '{"id":1}'


# --- Unchanged TOAST


def test_unchanged_columns_are_absent_and_listed() -> None:
    rows = Rows(ORDERS)
    assert rows.write(["1", UNCHANGED, UNCHANGED]) == '{"id":1}'
    assert rows.unchanged == ["item", "photo"]


def test_a_placeholder_replaces_unchanged_columns() -> None:
    rows = Rows(ORDERS, placeholder=True)
    marker = '"__debezium_unavailable_value"'
    assert rows.write(["1", UNCHANGED, UNCHANGED]) == f'{{"id":1,"item":{marker},"photo":{marker}}}'
    assert rows.unchanged == []


@pytest.mark.parametrize("placeholder", [False, True])
def test_the_old_row_fills_in_unchanged_columns(placeholder: bool) -> None:
    rows = Rows(ORDERS, placeholder)
    kept: list[OldValue | None] = []
    rows.write(["1", "tea", Binary(b"\0\xff")], keep=kept)
    assert rows.write([UNCHANGED, UNCHANGED, UNCHANGED], old=kept) == '{"id":1,"item":"tea","photo":"AP8="}'
    assert (rows.key, rows.unchanged) == ('{"id":1}', [])


def test_the_old_row_fills_in_only_unchanged_columns() -> None:
    rows = Rows(ORDERS)
    kept: list[OldValue | None] = []
    rows.write(["1", "tea", "\\x00"], keep=kept)
    assert rows.write(["2", None, UNCHANGED], old=kept) == '{"id":2,"item":null,"photo":"AA=="}'


@pytest.mark.parametrize("value", [None, UNCHANGED])
def test_an_old_row_without_the_value_leaves_a_column_unchanged(value: Any) -> None:
    rows = Rows(ORDERS)
    kept: list[OldValue | None] = []
    rows.write(["1", value, None], keep=kept)
    rows.write(["1", UNCHANGED, None], old=kept)
    assert rows.unchanged == ["item"]


def test_an_old_key_fills_in_only_the_key() -> None:
    rows = Rows(ORDERS)
    kept: list[OldValue | None] = []
    rows.write(["1", None, None], key_only=True, keep=kept)
    assert rows.write([UNCHANGED, UNCHANGED, UNCHANGED], old=kept) == '{"id":1}'
    assert rows.unchanged == ["item", "photo"]


def test_a_key_column_that_was_not_sent_is_an_error() -> None:
    with pytest.raises(RecordError, match=r"public\.orders\.id: a key column came without its value"):
        Rows(ORDERS).write([UNCHANGED, "tea", None])


# --- Hidden columns


def hidden_rows(selection: Selection) -> Rows:
    columns = [ID, Column("item", TEXT), Column("photo", BYTEA)]
    return Rows(planned(*columns, options=replace(OPTIONS, selection=selection)))


VALUES: Final[list[Row]] = [["1", "tea", "\\x00"], ["1", None, None], ["1", UNCHANGED, UNCHANGED]]


@pytest.mark.parametrize("row", VALUES)
def test_a_dropped_column_is_absent(row: Row) -> None:
    rows = hidden_rows(Selection(drop=(r".*\.(item|photo)",)))
    assert (rows.write(row), rows.unchanged) == ('{"id":1}', [])


@pytest.mark.parametrize("row", VALUES)
def test_a_masked_column_does_not_reveal_nulls(row: Row) -> None:
    rows = hidden_rows(Selection(mask=(r".*\.(item|photo)",), mask_with='"x"'))
    assert rows.write(row) == '{"id":1,"item":"\\"x\\"","photo":"\\"x\\""}'
    assert rows.unchanged == []


def test_a_hashed_key_column_is_the_same_in_row_and_key() -> None:
    rows = hidden_rows(Selection(hash=(r".*\.id",), hash_key=b"k"))
    row = json.loads(rows.write(["1", "tea", None]))
    assert json.loads(rows.key) == {"id": row["id"]}
    assert len(row["id"]) == 64


# --- Not a row of this table


@pytest.mark.parametrize("row", [["1", "tea"], ["1", "tea", None, None]])
def test_another_number_of_columns_is_refused(row: Row) -> None:
    with pytest.raises(
        ProtocolError, match=rf"a row of public\.orders has {len(row)} columns, its Relation 3"
    ):
        Rows(ORDERS).write(row)


def test_every_truncation_is_refused() -> None:
    data = tuple_data(["1", "tea", Binary(b"\0")])
    for size in range(len(data)):
        with pytest.raises((ProtocolError, IndexError)):
            RowWriter(False).write(BytesWriter(), ORDERS, data[:size], 0)
