"""Which subtransactions a streamed transaction had, whatever their number and order."""

from hypothesis import given
from hypothesis import strategies as st

from pgrelay.assembly import open_transaction
from pgrelay.assembly.open_transaction import Subtransactions

xids = st.lists(st.sampled_from([731, 732, 733, 734, 2**32 - 1]), max_size=60)


@given(xids, st.sets(st.sampled_from([731, 733, 900])))
def test_every_other_xid_is_a_subtransaction_except_aborted_ones(noted: list[int], aborted: set[int]) -> None:
    subtransactions = Subtransactions(731)
    for xid in noted:
        subtransactions.add(xid)
    assert list(subtransactions.excluding(aborted)) == sorted(set(noted) - aborted - {731})


def test_repetitions_do_not_pile_up() -> None:
    """Two subtransactions that take turns, for as long as it likes."""
    subtransactions = Subtransactions(731)
    for _ in range(open_transaction._DEDUPE_AT):
        subtransactions.add(732)
        subtransactions.add(733)
    assert len(subtransactions._xids) < open_transaction._DEDUPE_AT
    assert list(subtransactions.excluding(set())) == [732, 733]


def test_many_subtransactions_are_all_kept() -> None:
    subtransactions = Subtransactions(1)
    many = range(2, 3 * open_transaction._DEDUPE_AT)
    for xid in many:
        subtransactions.add(xid)
    assert list(subtransactions.excluding(set())) == list(many)
