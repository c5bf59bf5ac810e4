"""What every envelope keeps about its transaction."""

import pytest

from pgrelay.assembly.events import TransactionBegin
from pgrelay.encode.debezium import DebeziumJson
from pgrelay.encode.envelope import Envelope
from pgrelay.encode.flat import FlatJson
from tests.encode.encoding import OPTIONS
from tests.wire.build import NOON


@pytest.fixture(params=[DebeziumJson(OPTIONS), FlatJson()], ids=["debezium", "flat"])
def envelope(request: pytest.FixtureRequest) -> Envelope:
    assert isinstance(request.param, Envelope)
    return request.param


def test_a_transaction_begins_at_seq_0(envelope: Envelope) -> None:
    envelope.begin(TransactionBegin(754, 0x1800, NOON))
    assert (envelope.seq, envelope.commit_lsn, envelope.commit_us) == (0, 0x1800, NOON)
    assert (envelope.xid_text, envelope.origin, envelope.in_transaction) == (b"754", None, True)
    envelope.seq = 7
    envelope.set_origin("site")
    envelope.end()
    envelope.begin(TransactionBegin(None, 0x1900, NOON))
    assert (envelope.seq, envelope.commit_lsn, envelope.previous_commit_lsn) == (0, 0x1900, 0x1800)
    assert (envelope.xid_text, envelope.origin, envelope.in_transaction) == (b"null", None, False)
