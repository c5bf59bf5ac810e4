"""Any workload comes out as it was committed, whatever was streamed, prepared, spilled, rolled back or cut.

The server is the one in tests/walsender.py; its oracle knows nothing of how the frames were sent.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from pgrelay.assembler import Assembler
from pgrelay.events import Event
from pgrelay.prepared import PreparedStore
from pgrelay.spool import Spool
from tests.assembly import UNLIMITED, batches, events, transactions
from tests.encode.encoding import encoder_of, records_of
from tests.walsender import TABLES, Committed, Transaction, Walsender

_ON_ONE: Final[dict[str, Callable[[Walsender, Transaction, int], None]]] = {
    "insert": Walsender.insert,
    "alter": Walsender.alter,
    "savepoint": lambda server, transaction, _: server.savepoint(transaction),
    "release": lambda server, transaction, _: server.release(transaction),
    "rollback to": lambda server, transaction, _: server.rollback_to(transaction),
    "stream": lambda server, transaction, _: server.stream(transaction),
    "commit": lambda server, transaction, _: server.commit(transaction),
    "abort": lambda server, transaction, _: server.abort(transaction),
    "prepare": lambda server, transaction, _: server.prepare(transaction),
}
_ON_PREPARED: Final[dict[str, Callable[[Walsender, Transaction], None]]] = {
    "commit prepared": Walsender.commit_prepared,
    "rollback prepared": Walsender.rollback_prepared,
}
_ON_NONE: Final[dict[str, Callable[[Walsender], None]]] = {
    "begin": Walsender.begin,
    "keepalive": Walsender.keepalive,
    "message": Walsender.message,
    "stray abort": Walsender.stray_abort,
    "reconnect": Walsender.reconnect,
}

# An action, which transaction it is on, and which table.
Step = tuple[str, int, int]

_OFTEN: Final = ["begin", "insert", "insert", "insert", "stream", "stream", "commit"]
steps = st.tuples(
    st.sampled_from([*_OFTEN, *_ON_ONE, *_ON_PREPARED, *_ON_NONE]),
    st.integers(0, 2),
    st.integers(0, TABLES - 1),
)
# What does not apply is passed over, so that any list is a workload; short ones would seldom be one.
workloads = st.lists(steps, min_size=20, max_size=80)
memory_limits = st.one_of(st.just(0), st.integers(0, 600), st.just(UNLIMITED))
slice_sizes = st.one_of(st.just(1), st.integers(1, 600), st.just(UNLIMITED))


def perform(workload: list[Step]) -> Walsender:
    server = Walsender()
    for action, which, table in workload:
        if action in _ON_NONE:
            _ON_NONE[action](server)
        elif action in _ON_ONE:
            if not server.running:
                server.begin()
            _ON_ONE[action](server, server.running[which % len(server.running)], table)
        elif action in _ON_PREPARED and server.prepared:
            _ON_PREPARED[action](server, server.prepared[which % len(server.prepared)])
    return server


def assemblers(connections: list[list[bytes]], memory_limit: int) -> Iterator[tuple[Assembler, list[bytes]]]:
    """An assembler for each connection, one after the other on the same directory, and its frames."""
    with TemporaryDirectory() as directory:
        for frames in connections:
            spool = Spool(Path(directory))
            prepared = PreparedStore(spool)
            prepared.load()
            assembler = Assembler(spool, prepared, memory_limit)
            yield assembler, frames
            assembler.close()
            assert spool.on_disk == 0
            assert not list(Path(directory).glob("*.spool"))


def relayed(connections: list[list[bytes]], memory_limit: int, slice_size: int) -> list[Event]:
    out: list[Event] = []
    for assembler, frames in assemblers(connections, memory_limit):
        out += events(assembler, frames, slice_size)
    return out


@given(workloads, memory_limits, slice_sizes)
def test_what_was_committed_comes_out_in_commit_order_and_nothing_else(
    workload: list[Step], memory_limit: int, slice_size: int
) -> None:
    server = perform(workload)
    out = transactions(relayed(server.connections, memory_limit, slice_size))
    assert [(it.begin.xid, it.begin.commit_lsn, it.end_lsn, it.frames) for it in out] == [
        (it.xid, it.commit_lsn, it.end_lsn, it.frames) for it in server.committed
    ]


@given(workloads, memory_limits, slice_sizes)
def test_spilling_and_slicing_change_nothing(
    workload: list[Step], memory_limit: int, slice_size: int
) -> None:
    connections = perform(workload).connections
    assert relayed(connections, memory_limit, slice_size) == relayed(connections, UNLIMITED, UNLIMITED)


@given(workloads, memory_limits, slice_sizes)
def test_every_row_is_read_by_the_relation_that_preceded_it(
    workload: list[Step], memory_limit: int, slice_size: int
) -> None:
    """Also where the Relation came in another transaction, or long ago, or was rolled back."""
    server = perform(workload)
    records: list[tuple[str, object, int, int]] = []
    for assembler, frames in assemblers(server.connections, memory_limit):
        encoder = encoder_of()
        for batch in batches(assembler, frames, slice_size):
            for record in records_of(batch, encoder):
                source = record.value["source"]
                records.append((record.topic, record.value["after"], source["commit_lsn"], source["seq"]))
    assert records == [record for it in server.committed for record in expected(it)]


def expected(it: Committed) -> list[tuple[str, object, int, int]]:
    if it.xid is None:
        return [("app.message", None, it.commit_lsn, 0)]
    return [
        (f"app.public.table_{row.table}", row.after(), it.commit_lsn, seq) for seq, row in enumerate(it.rows)
    ]
