"""Any workload comes out as it was committed, whatever was streamed, prepared, spilled, rolled back or cut.

The server is the one in tests/walsender.py; its oracle knows nothing of how the frames were sent.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.events import Event
from pgrelay.assembly.prepared import PreparedStore
from pgrelay.assembly.spool import Spool
from tests.assembly.transactions import UNLIMITED, batches, events, transactions
from tests.encode.encoding import encoder_of, records_of
from tests.walsender import TABLES, Committed, Transaction, Walsender

# What a session does in its transaction, and what happens around it. The number stands for a table.
_DOINGS: Final[dict[str, Callable[[Walsender, Transaction, int], None]]] = {
    "insert": Walsender.insert,
    "alter": Walsender.alter,
    "savepoint": lambda server, transaction, _: server.savepoint(transaction),
    "release": lambda server, transaction, _: server.release(transaction),
    "rollback to": lambda server, transaction, _: server.rollback_to(transaction),
    "rollback to, unannounced": lambda server, transaction, _: server.rollback_to(
        transaction, announced=False
    ),
    "stream": lambda server, transaction, _: server.stream(transaction),
    "keepalive": lambda server, *_: server.keepalive(),
    "message": lambda server, *_: server.message(),
    "stray abort": lambda server, *_: server.stray_abort(),
    "reconnect": lambda server, *_: server.reconnect(),
}
_OFTEN: Final = [
    *["insert"] * 8,
    *["stream", "alter", "savepoint"] * 3,
    *["rollback to", "rollback to, unannounced", "release"] * 2,
]
_ENDS: Final = ["commit", "abort", "prepare and commit", "prepare and roll back", "stay open"]

Doing = tuple[str, int]


class Script(NamedTuple):
    """One transaction. A small one is not streamed."""

    doings: list[Doing]
    small: bool
    end: str


class Workload(NamedTuple):
    """`schedule` says which of the transactions that have begun takes its next step."""

    scripts: list[Script]
    schedule: list[int]


doings = st.tuples(st.sampled_from([*_OFTEN, *_DOINGS]), st.integers(0, TABLES - 1))
ends = st.sampled_from(["commit", "commit", "prepare and commit", *_ENDS])
scripts = st.builds(Script, st.lists(doings, min_size=6, max_size=16), st.booleans(), ends)
schedules = st.lists(st.integers(0, 2), max_size=60)
workloads = st.builds(Workload, st.lists(scripts, min_size=3, max_size=8), schedules)
memory_limits = st.one_of(st.just(0), st.integers(0, 600), st.just(UNLIMITED))
slice_sizes = st.one_of(st.just(1), st.integers(1, 600), st.just(UNLIMITED))


def perform(workload: Workload) -> Walsender:
    """Run three sessions concurrently as scheduled, then each remaining script to its end."""
    server = Walsender()
    playing = [play(server, script) for script in workload.scripts]
    for which in workload.schedule:
        session = playing[which % len(playing)]
        if next(session, "at its end") is not None:
            playing.remove(session)
        if not playing:
            break
    for session in playing:
        list(session)
    return server


def play(server: Walsender, script: Script) -> Iterator[None]:
    transaction = server.begin()
    for doing, table in script.doings:
        if not (script.small and doing == "stream"):
            _DOINGS[doing](server, transaction, table)
        yield
    if script.end == "commit":
        server.commit(transaction)
    elif script.end == "abort":
        server.abort(transaction)
    elif script.end != "stay open":
        server.prepare(transaction)
        yield
        if script.end == "prepare and commit":
            server.commit_prepared(transaction)
        else:
            server.rollback_prepared(transaction)


def assemblers(connections: list[list[bytes]], memory_limit: int) -> Iterator[tuple[Assembler, list[bytes]]]:
    """An assembler for each connection, one after the other on the same directory, and its frames."""
    with TemporaryDirectory() as directory:
        for frames in connections:
            spool = Spool(Path(directory))
            prepared = PreparedStore(spool)
            list(prepared.load())
            assembler = Assembler(spool, prepared, memory_limit)
            yield assembler, frames
            assembler.close()
            assert spool.on_disk == 0
            assert not list(Path(directory).glob("*.spool"))


def relayed(server: Walsender, memory_limit: int, slice_size: int) -> list[Event]:
    out: list[Event] = []
    for assembler, frames in assemblers(server.connections, memory_limit):
        out += events(assembler, frames, slice_size, server.rolled_back)
    return out


@given(workloads, memory_limits, slice_sizes)
def test_exactly_the_committed_transactions_come_out_in_commit_order(
    workload: Workload, memory_limit: int, slice_size: int
) -> None:
    server = perform(workload)
    out = transactions(relayed(server, memory_limit, slice_size))
    assert [(it.begin.xid, it.begin.commit_lsn, it.end_lsn, it.frames) for it in out] == [
        (it.xid, it.commit_lsn, it.end_lsn, it.frames) for it in server.committed
    ]


@given(workloads, memory_limits, slice_sizes)
def test_spilling_and_slicing_do_not_change_the_events(
    workload: Workload, memory_limit: int, slice_size: int
) -> None:
    server = perform(workload)
    assert relayed(server, memory_limit, slice_size) == relayed(server, UNLIMITED, UNLIMITED)


@settings(max_examples=200)
@given(workloads, memory_limits, slice_sizes)
def test_every_row_is_read_with_the_relation_that_preceded_it(
    workload: Workload, memory_limit: int, slice_size: int
) -> None:
    """Also where the Relation came in another transaction, long ago, or in what was rolled back."""
    server = perform(workload)
    records: list[tuple[str, object, int, int]] = []
    for assembler, frames in assemblers(server.connections, memory_limit):
        encoder = encoder_of()
        for batch in batches(assembler, frames, slice_size, server.rolled_back):
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
