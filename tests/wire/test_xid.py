"""Ids of 32 bits are compared over their end, with each other and with ids of 64 bits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.wire.xid import xids_ahead


@pytest.mark.parametrize(
    ("xid", "other", "by"),
    [(731, 731, 0), (732, 731, 1), (731, 732, None), (5, 0xFFFF_FFFE, 7), (0xFFFF_FFFE, 5, None)],
)
def test_ids_are_compared_over_the_end_of_32_bits(xid: int, other: int, by: int | None) -> None:
    assert xids_ahead(xid, other) == by


@given(st.integers(0, (1 << 63) - 1), st.integers(0, (1 << 31) - 1))
def test_the_epoch_of_an_id_makes_no_difference(other: int, by: int) -> None:
    xid = other + by
    assert (
        xids_ahead(xid, other)
        == xids_ahead(xid & 0xFFFF_FFFF, other)
        == xids_ahead(xid, other & 0xFFFF_FFFF)
        == by
    )
    assert xids_ahead(other, xid) is None or by == 0
