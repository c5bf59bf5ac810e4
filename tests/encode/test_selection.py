"""Which tables are relayed, and which columns are dropped, masked or hashed during encoding."""

import hmac
import json
from dataclasses import replace
from typing import Any, Final

import pytest

from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import RelationFacts
from pgrelay.encode.selection import Selection
from pgrelay.errors import RecordError, SetupError
from tests.encode.encoding import (
    NO_FACTS,
    OPTIONS,
    encoder_of,
    outcomes,
    records,
    records_of,
    segments,
    transaction,
)
from tests.wire import build
from tests.wire.build import BOOL, INT4, NUMERIC, TEXT, UNCHANGED, Binary, Column, Row

OID: Final = 16384
SECRET: Final = "4929-1234"
KEY: Final = b"pepper"
ID, CARD, NOTE = Column("id", INT4, key=True), Column("card"), Column("note")
CARDS: Final = build.relation(OID, "public", "cards", "d", [ID, CARD, NOTE])
CARDS_FULL: Final = build.relation(OID, "public", "cards", "f", [ID, CARD, NOTE])

DROP: Final = Selection(drop=(r"public\.cards\.card",))
MASK: Final = Selection(mask=(r"public\.cards\.card",))
HASH: Final = Selection(hash=(r"public\.cards\.card",), hash_key=KEY)


def options(selection: Selection) -> RecordOptions:
    return replace(OPTIONS, selection=selection)


def values(
    selection: Selection, *messages: bytes, relation: bytes = CARDS, facts: RelationFacts = NO_FACTS
) -> list[Any]:
    written = records(relation, *messages, options=options(selection), facts=facts)
    return [record.value for record in written if record.value is not None]


def digest(value: object) -> str:
    """As an operator would compute it: the HMAC of the value's JSON."""
    return hmac.new(KEY, json.dumps(value).encode(), "sha256").hexdigest()


class TestTables:
    @pytest.mark.parametrize(
        ("include", "exclude", "taken"),
        [
            ((), (), True),
            ((r"public\.orders",), (), True),
            ((r"public\.order",), (), False),  # the whole name must match
            ((r"orders",), (), False),
            ((r"sales\..*", r"public\..*"), (), True),
            ((), (r"public\.orders",), False),
            ((), (r"public\.ord",), True),
            ((r"public\..*",), (r".*\.orders",), False),  # exclude wins
        ],
    )
    def test_a_table_is_relayed_if_an_include_matches_and_no_exclude(
        self, include: tuple[str, ...], exclude: tuple[str, ...], taken: bool
    ) -> None:
        assert Selection(include, exclude).is_relayed("public.orders") is taken

    def test_a_line_break_in_a_name_hides_nothing_from_a_pattern(self) -> None:
        assert not Selection(exclude=(r"public\..*",)).is_relayed("public.or\nders")
        assert Selection(drop=(r".*\.email",)).treatment("public.or\nders", "email", key=False) == "drop"

    def test_changes_of_an_excluded_table_have_no_records(self) -> None:
        selection = Selection(exclude=(r"public\.cards",))
        events = transaction(
            CARDS,
            build.insert(OID, ["1", SECRET, None]),
            build.update(OID, ["2", SECRET, None], key=["1", None, None]),
            build.delete(OID, key=["2", None, None]),
            build.truncate([OID]),
        )
        assert records_of(events, encoder_of(options(selection))) == []

    def test_a_transaction_of_excluded_tables_only_still_ends(self) -> None:
        """So the slot moves past it."""
        selection = Selection(exclude=(r"public\.cards",))
        events = transaction(CARDS, build.insert(OID, ["1", SECRET, None]))
        last = segments(encoder_of(options(selection)), events)[-1]
        assert last.end_lsn == 0x1808

    def test_a_truncate_of_several_tables_skips_excluded_ones(self) -> None:
        others = build.relation(OID + 1, "public", "others", "d", [ID])
        (record,) = records(
            CARDS,
            others,
            build.truncate([OID, OID + 1]),
            options=options(Selection(exclude=(r"public\.cards",))),
        )
        assert (record.topic, record.value["source"]["seq"]) == ("app.public.others", 0)

    def test_seq_does_not_count_excluded_changes(self) -> None:
        others = build.relation(OID + 1, "public", "others", "d", [ID])
        (record,) = records(
            CARDS,
            others,
            build.insert(OID, ["1", SECRET, None]),
            build.insert(OID + 1, ["1"]),
            options=options(Selection(exclude=(r"public\.cards",))),
        )
        assert record.value["source"]["seq"] == 0


class TestTreatment:
    @pytest.mark.parametrize(
        ("column", "key", "treatment"),
        [
            ("id", False, "keep"),
            ("dropped", False, "drop"),
            ("masked", False, "mask"),
            ("hashed", False, "hash"),
            ("hashed", True, "hash"),
            ("hashed_too", False, "keep"),  # the whole name must match
            ("all_three", False, "drop"),
            ("two", False, "mask"),
        ],
    )
    def test_the_first_matching_list_decides(self, column: str, key: bool, treatment: str) -> None:
        selection = Selection(
            drop=(r"public\.t\.dropped", r".*\.all_three"),
            mask=(r"public\.t\.masked", r".*\.all_three", r".*\.two"),
            hash=(r"public\.t\.hashed", r".*\.all_three", r".*\.two"),
        )
        assert selection.treatment("public.t", column, key) == treatment

    @pytest.mark.parametrize(("list_", "selection"), [("drop", DROP), ("mask", MASK)])
    def test_a_key_column_may_not_be_dropped_or_masked(self, list_: str, selection: Selection) -> None:
        with pytest.raises(SetupError, match=rf"records\.columns\.{list_}: public\.cards\.card .*the key"):
            selection.treatment("public.cards", "card", True)

    @pytest.mark.parametrize(
        ("relation", "facts"),
        [
            (build.relation(OID, "public", "cards", "i", [ID, Column("card", key=True)]), NO_FACTS),
            (CARDS_FULL, RelationFacts(("card",))),
        ],
        ids=["replica identity", "primary key under full"],
    )
    def test_a_dropped_key_column_is_refused_with_the_first_row(
        self, relation: bytes, facts: RelationFacts
    ) -> None:
        first = transaction(relation, build.insert(OID, ["1", "2", "hi"]))
        with pytest.raises(SetupError, match=r"public\.cards\.card"):
            list(outcomes(encoder_of(options(DROP)), first, facts))


class TestDrop:
    def test_a_dropped_column_is_in_no_record(self) -> None:
        insert = build.insert(OID, ["1", SECRET, "hi"])
        update = build.update(OID, ["1", UNCHANGED, "ho"])
        created, updated = values(DROP, insert, update)
        assert created["after"] == {"id": 1, "note": "hi"}
        assert updated["after"] == {"id": 1, "note": "ho"}
        assert "unchanged" not in updated

    def test_a_dropped_column_is_not_in_the_old_row(self) -> None:
        old: Row = ["1", SECRET, "hi"]
        changes = build.update(OID, ["1", SECRET, "ho"], old=old), build.delete(OID, old=old)
        updated, deleted = values(DROP, *changes, relation=CARDS_FULL)
        assert updated["before"] == deleted["before"] == {"id": 1, "note": "hi"}

    def test_a_row_may_lose_its_only_column(self) -> None:
        lone = build.relation(OID, "public", "cards", "d", [CARD])
        (created,) = values(DROP, build.insert(OID, [SECRET]), relation=lone)
        assert created["after"] == {}


class TestMask:
    @pytest.mark.parametrize("value", [SECRET, None, UNCHANGED, "", Binary(b"\xff")], ids=repr)
    def test_the_constant_replaces_every_value(self, value: Any) -> None:
        """It doesn't even reveal whether there is one."""
        (updated,) = values(MASK, build.update(OID, ["1", value, None]))
        assert updated["after"] == {"id": 1, "card": "***", "note": None}
        assert "unchanged" not in updated

    def test_the_constant_replaces_values_in_the_old_row(self) -> None:
        (deleted,) = values(MASK, build.delete(OID, old=["1", SECRET, "hi"]), relation=CARDS_FULL)
        assert deleted["before"] == {"id": 1, "card": "***", "note": "hi"}

    def test_columns_absent_from_the_old_key_stay_absent(self) -> None:
        (deleted,) = values(MASK, build.delete(OID, key=["1", None, None]))
        assert deleted["before"] == {"id": 1}

    @pytest.mark.parametrize("text", ["", 'hidden "for good"', "verdeckt ä"])
    def test_the_constant_can_be_configured(self, text: str) -> None:
        (created,) = values(replace(MASK, mask_with=text), build.insert(OID, ["1", SECRET, None]))
        assert created["after"]["card"] == text

    def test_the_constant_is_a_string_for_every_type(self) -> None:
        numbers = build.relation(OID, "public", "cards", "d", [ID, Column("card", INT4)])
        (created,) = values(MASK, build.insert(OID, ["1", "4929"]), relation=numbers)
        assert created["after"]["card"] == "***"


class TestHash:
    def test_a_hashed_value_is_the_hmac_of_its_json(self) -> None:
        (created,) = values(HASH, build.insert(OID, ["1", SECRET, None]))
        assert created["after"] == {"id": 1, "card": digest(SECRET), "note": None}

    @pytest.mark.parametrize(
        ("type_oid", "text", "binary", "value"),
        [
            (INT4, "-7", b"\xff\xff\xff\xf9", -7),
            (BOOL, "t", b"\x01", True),
            (TEXT, 'a "b"', b'a "b"', 'a "b"'),
            (NUMERIC, "1.50", b"\x00\x02\x00\x00\x00\x00\x00\x02\x00\x01\x13\x88", "1.50"),
        ],
    )
    def test_text_and_binary_give_the_same_hash(
        self, type_oid: int, text: str, binary: bytes, value: object
    ) -> None:
        relation = build.relation(OID, "public", "cards", "d", [ID, Column("card", type_oid)])
        inserts = build.insert(OID, ["1", text]), build.insert(OID, ["1", Binary(binary)])
        assert [it["after"]["card"] for it in values(HASH, *inserts, relation=relation)] == [
            digest(value)
        ] * 2

    def test_null_stays_null_and_unchanged_unchanged(self) -> None:
        null, unchanged = values(
            HASH, build.update(OID, ["1", None, "hi"]), build.update(OID, ["1", UNCHANGED, "hi"])
        )
        assert null["after"] == {"id": 1, "card": None, "note": "hi"}
        assert unchanged["after"] == {"id": 1, "note": "hi"}
        assert unchanged["unchanged"] == ["card"]

    def test_a_value_filled_in_from_the_old_row_is_hashed(self) -> None:
        update = build.update(OID, ["1", UNCHANGED, None], old=["1", SECRET, None])
        (updated,) = values(HASH, update, relation=CARDS_FULL)
        assert updated["before"]["card"] == updated["after"]["card"] == digest(SECRET)

    def test_a_key_column_is_hashed_in_the_key_too(self) -> None:
        keyed = build.relation(OID, "public", "cards", "d", [Column("card", key=True)])
        update = build.update(OID, ["new"], key=[SECRET])
        deleted, tombstone, created = records(keyed, update, options=options(HASH))
        old, new = {"card": digest(SECRET)}, {"card": digest("new")}
        assert (deleted.key, tombstone.key, created.key) == (old, old, new)
        assert (deleted.value["before"], created.value["after"]) == (old, new)
        assert json.loads(deleted.headers["__debezium.newkey"] or b"") == new
        assert json.loads(created.headers["__debezium.oldkey"] or b"") == old

    def test_another_key_gives_another_hash(self) -> None:
        other = replace(HASH, hash_key=b"salt")
        (created,) = values(other, build.insert(OID, ["1", SECRET, None]))
        assert created["after"]["card"] != digest(SECRET)

    def test_the_hash_key_is_not_in_the_repr(self) -> None:
        assert "pepper" not in repr(options(HASH))

    def test_a_value_that_cannot_be_encoded_is_not_shown_in_the_error(self) -> None:
        numbers = build.relation(OID, "public", "cards", "d", [ID, Column("card", BOOL)])
        with pytest.raises(RecordError, match=r"public\.cards\.card: .*the column is hashed") as caught:
            values(HASH, build.insert(OID, ["1", SECRET]), relation=numbers)
        assert SECRET not in str(caught.value)
        cause: BaseException | None = caught.value
        while cause is not None:
            assert SECRET not in str(cause)
            cause = cause.__cause__
