"""The publications: whether they exist, or can be created by the role."""

from dataclasses import replace

import pytest

from pgrelay.check.publications import (
    differences_from_config,
    existing_publications,
    missing_publications,
    missing_rights,
    unusable_entries,
    will_create,
)
from pgrelay.check.table_queries import Publication, TableEntry
from pgrelay.encode.selection import Selection
from tests.check.servers import STANDBY, server, source
from tests.check.tables import published, table

FOUND = Publication("shop", "shop", True, False, ("insert", "update"))
MISSING = Publication("Shop", '"Shop"', False, False, ())
ENTRY = TableEntry("public", "orders", True, "r", "p", owned=True)
SCHEMA = TableEntry("sales", None, True, None, None, owned=False)


def test_an_existing_publication_is_described() -> None:
    (finding,) = existing_publications([FOUND], published(table()))
    assert finding.level == "ok"
    assert finding.what == "publication shop holds 1 table, and publishes insert, update"


def test_publications_of_all_tables_are_marked() -> None:
    (finding,) = existing_publications(
        [FOUND, replace(FOUND, name="b", all_tables=True)], published(table(), schemas=None)
    )
    assert finding.what.startswith("publications shop, b hold 1 table (all: new tables as well)")


@pytest.mark.parametrize(
    ("publication", "cure"),
    [(FOUND, "ALTER PUBLICATION shop ADD TABLE ..."), (replace(FOUND, all_tables=True), "create a table")],
)
def test_an_empty_publication_is_a_warning(publication: Publication, cure: str) -> None:
    (finding,) = existing_publications([publication], published())
    assert (finding.level, finding.cure) == ("warning", cure)


def test_a_missing_publication_that_a_run_may_not_create_is_an_error() -> None:
    finding = missing_publications([MISSING], source(create=False), "shop", slot_exists=False)
    assert finding.level == "error"
    assert "source.create is false" in finding.why
    assert 'CREATE PUBLICATION "Shop" FOR ALL TABLES' in finding.cure
    many = missing_publications([MISSING], source(publications=["a", "b"]), "shop", slot_exists=False)
    assert "only if it is the only one" in many.why


def test_a_missing_publication_with_an_existing_slot_is_an_error() -> None:
    finding = missing_publications([MISSING], source(), "shop", slot_exists=True)
    assert finding.level == "error"
    assert "run pgrelay reset, then copy the tables" in finding.cure


def test_a_publication_that_a_run_will_create_is_described() -> None:
    finding = will_create("shop", [], published(table()))
    assert (finding.level, finding.what) == (
        "ok",
        "publication shop does not exist; a run creates it for all tables: 1 now",
    )
    assert will_create("shop", ["sales.*"], published()).level == "warning"


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        (replace(ENTRY, kind=None), "these do not exist: public.orders"),
        (replace(SCHEMA, schema_exists=False), "these do not exist: sales.*"),
        (replace(ENTRY, kind="v"), "can't be published: public.orders"),
        (replace(ENTRY, persistence="u"), "these are unlogged: public.orders"),
    ],
)
def test_tables_that_can_not_be_published_are_an_error(entry: TableEntry, what: str) -> None:
    (finding,) = unusable_entries([ENTRY, entry], 180000)
    assert finding.level == "error"
    assert finding.what.endswith(what)


def test_partitioned_tables_can_be_published_since_13() -> None:
    partitioned = replace(ENTRY, kind="p")
    assert unusable_entries([partitioned, SCHEMA], 130000) == []
    assert len(unusable_entries([partitioned, SCHEMA], 120000)) == 1


def test_superusers_and_owners_may_create_a_publication() -> None:
    assert missing_rights("p", [], server(superuser=True), "CREATE ...") == []
    assert missing_rights("p", [ENTRY], server(), "CREATE ...") == []
    assert missing_rights("p", [SCHEMA], server(version=140000), "CREATE ...") == []


@pytest.mark.parametrize(
    ("entries", "changes", "why"),
    [
        ([], {}, "only a superuser"),
        ([SCHEMA], {}, "only a superuser"),
        ([ENTRY], {"may_create": False}, "no right to CREATE in database shop"),
        ([replace(ENTRY, owned=False)], {}, "public.orders is another role's table"),
        ([ENTRY], {"wal_level": STANDBY, "superuser": True}, "the server is a standby"),
    ],
)
def test_a_role_that_may_not_create_the_publication_is_an_error(
    entries: list[TableEntry], changes: dict[str, bool], why: str
) -> None:
    (finding,) = missing_rights("p", entries, server(**changes), "CREATE ...")
    assert finding.level == "error"
    assert why in finding.why
    assert finding.cure.endswith(": CREATE ...; or correct source.publications")


def test_a_publication_that_lacks_or_exceeds_source_tables_is_a_warning() -> None:
    meant = published(table("orders", 1), table("notes", 2))
    held = published(table("orders", 1), table("salaries", 3), table("secrets", 4))
    missing, more = differences_from_config(meant, held, Selection(exclude=("public.secrets",)), "shop")
    assert (missing.level, missing.cure) == ("warning", "ALTER PUBLICATION shop ADD TABLE ONLY public.notes")
    assert (more.level, more.what) == (
        "warning",
        "1 table not in source.tables would be relayed: public.salaries",
    )
    assert differences_from_config(meant, meant, Selection(), "shop") == []


def test_partitions_of_a_table_in_source_tables_are_meant_too() -> None:
    """Also of one that is published as its root, and has no partition yet."""
    root, leaf, other, empty = (
        table(name, n) for n, name in enumerate(("root", "leaf", "other", "empty"), 1)
    )
    held = published(root, empty, leaves=(leaf, other), roots={2: 1, 3: 1})
    assert differences_from_config(published(leaf, other), held, Selection(), "shop") == []
    [more] = differences_from_config(published(leaf), held, Selection(), "shop")
    assert more.what == "1 table not in source.tables would be relayed: public.root"
