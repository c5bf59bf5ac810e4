"""A column that was hidden is not shown because it, or its table, has another name."""

from dataclasses import replace
from typing import Final

import pytest

from pgrelay.encode.hidden import HiddenColumns
from pgrelay.encode.plan import Plan
from pgrelay.encode.selection import Selection
from pgrelay.errors import SetupError
from pgrelay.wire.pgoutput import Relation, RelationColumn
from tests.encode.encoding import NO_FACTS, OPTIONS

INT4: Final = 23
TEXT: Final = 25
SELECTION: Final = Selection(
    drop=(r"public\.cards\.code",),
    mask=(r"public\.cards\.holder",),
    hash=(r"public\.(cards|payments)\.pan",),
    hash_key=b"pepper",
)
ID: Final = ("id", INT4)


def plan(table: str, *columns: tuple[str, int], oid: int = 16384) -> Plan:
    described = tuple(RelationColumn(name == "id", name, type_oid, -1) for name, type_oid in columns)
    relation = Relation(None, oid, "public", table, "d", described)
    return Plan(relation, NO_FACTS, f"app.public.{table}", replace(OPTIONS, selection=SELECTION))


def refusal(before: Plan, after: Plan) -> str:
    hidden = HiddenColumns()
    hidden.check(before, 1)
    with pytest.raises(SetupError) as refused:
        hidden.check(after, 2)
    return str(refused.value)


def accepted(*plans: Plan) -> None:
    hidden = HiddenColumns()
    for lsn, each in enumerate(plans):
        hidden.check(each, lsn)


@pytest.mark.parametrize(("name", "treatment"), [("code", "drop"), ("holder", "mask"), ("pan", "hash")])
def test_a_renamed_column_is_refused_with_both_names(name: str, treatment: str) -> None:
    assert refusal(plan("cards", ID, (name, TEXT)), plan("cards", ID, ("new", TEXT))) == (
        f"public.cards.new takes the place of public.cards.{name}, which records.columns.{treatment} hides, "
        "but no pattern hides it by its new name; add one, or restart pgrelay to relay its values"
    )


def test_a_renamed_table_is_refused() -> None:
    message = refusal(plan("cards", ID, ("code", TEXT)), plan("old_cards", ID, ("code", TEXT)))
    assert message.startswith("public.old_cards.code takes the place of public.cards.code, ")


def test_a_column_that_changes_its_type_and_name_is_refused() -> None:
    refusal(plan("cards", ID, ("code", TEXT)), plan("cards", ID, ("new", INT4)))


def test_a_column_that_is_renamed_while_one_before_it_is_dropped_is_refused() -> None:
    before = plan("cards", ID, ("note", TEXT), ("code", TEXT), ("holder", TEXT))
    refusal(before, plan("cards", ID, ("new", TEXT), ("holder", TEXT)))


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (("code", "code_new"), ("code_old", "code"), "code_old"),
        (("code",), ("code_old", "code"), "code_old"),
        (("code", "note"), ("note", "code"), "note"),
    ],
    ids=["a new one took the name", "one was added by the name", "two swapped their names"],
)
def test_a_column_whose_name_another_has_taken_is_refused(
    before: tuple[str, ...], after: tuple[str, ...], shown: str
) -> None:
    message = refusal(*(plan("cards", ID, *((name, TEXT) for name in names)) for names in (before, after)))
    assert message.startswith(f"public.cards.{shown} takes the place of public.cards.code, ")


def test_a_hidden_column_moves_to_the_left_when_one_before_it_is_dropped() -> None:
    accepted(
        plan("cards", ID, ("note", TEXT), ("code", TEXT), ("remark", TEXT)),
        plan("cards", ID, ("code", TEXT), ("remark", TEXT)),
    )


def test_the_refusal_comes_again_until_the_name_is_hidden() -> None:
    hidden = HiddenColumns()
    hidden.check(plan("cards", ID, ("code", TEXT)), 1)
    for _ in range(2):
        with pytest.raises(SetupError):
            hidden.check(plan("cards", ID, ("new", TEXT)), 2)


def test_changes_that_come_again_have_the_names_of_their_time() -> None:
    """After a rename that hides a column, and then one that would show it."""
    hidden = HiddenColumns()
    shown, code, new = (plan("cards", ID, (name, TEXT)) for name in ("note", "code", "new"))
    for each, lsn in ((shown, 1), (code, 2), (shown, 1), (code, 2)):
        hidden.check(each, lsn)
    with pytest.raises(SetupError):
        hidden.check(new, 3)


def test_what_stays_hidden_is_accepted() -> None:
    """A mask in place of a hash too, as the configuration says so."""
    accepted(plan("cards", ID, ("pan", TEXT)), plan("payments", ID, ("pan", TEXT)))
    accepted(plan("cards", ID, ("pan", TEXT)), plan("cards", ID, ("holder", TEXT)))


def test_columns_that_were_never_hidden_may_have_any_name() -> None:
    accepted(plan("cards", ID, ("note", TEXT)), plan("cards", ID, ("remark", TEXT)))
    accepted(
        plan("cards", ID, ("note", INT4), ("code", TEXT)), plan("cards", ID, ("remark", INT4), ("code", TEXT))
    )


def test_a_hidden_column_may_be_dropped() -> None:
    accepted(plan("cards", ID, ("code", TEXT), ("note", TEXT)), plan("cards", ID, ("note", TEXT)))


def test_a_new_column_beside_a_hidden_one_is_accepted() -> None:
    accepted(plan("cards", ID, ("code", TEXT)), plan("cards", ID, ("code", TEXT), ("note", TEXT)))


def test_another_table_is_another_table() -> None:
    """One that was created anew, under a name of its own, for example."""
    accepted(plan("cards", ID, ("code", TEXT)), plan("others", ID, ("code", TEXT), oid=16385))


def test_a_relation_that_hides_nothing_any_more_is_forgotten() -> None:
    accepted(
        plan("cards", ID, ("code", TEXT)),
        plan("cards", ID),
        plan("cards", ID, ("new", TEXT)),
    )
