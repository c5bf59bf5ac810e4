"""Any message that a server may send: its values drawn by hypothesis, its bytes written by `build`."""

from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from pgrelay.wire import pgoutput, transactions
from pgrelay.wire.pgoutput import PgoutputMessage
from pgrelay.wire.tuples import TupleData
from tests.wire import build
from tests.wire.build import UNCHANGED, Binary, Column, Row, Value

Y2K_US = build.unix_us(build.Y2K)


def _unsigned(bits: int) -> SearchStrategy[int]:
    """Often one with its highest bit set, which a reader of signed integers gets wrong."""
    return st.integers(0, 2**bits - 1) | st.integers(2 ** (bits - 1), 2**bits - 1)


lsns = _unsigned(64)
oids = _unsigned(32)
xids = _unsigned(32)
times = st.integers(Y2K_US - 2**63, Y2K_US + 2**63 - 1)
# Any bytes but zero: identifiers of a database in SQL_ASCII need not be UTF-8.
names = st.one_of(
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12),
    st.binary(max_size=12).map(lambda raw: raw.replace(b"\0", b"").decode("utf-8", "surrogateescape")),
)
# An empty one is pg_catalog, so it would not come back as it was.
namespaces = names.filter(bool)


@st.composite
def tuples(draw: st.DrawFn) -> TupleData:
    kinds = bytes(draw(st.lists(st.sampled_from(b"nutb"), max_size=5)))
    return TupleData(kinds, tuple(draw(st.binary(max_size=12)) if kind in b"tb" else None for kind in kinds))


columns = st.builds(
    pgoutput.RelationColumn,
    key=st.booleans(),
    name=names,
    type_oid=oids,
    typmod=st.integers(-(2**31), 2**31 - 1),
)


def _changes(xid: SearchStrategy[int | None]) -> dict[str, SearchStrategy[PgoutputMessage]]:
    """The messages whose xid is there in a stream and None outside."""
    row = tuples()
    return {
        "Relation": st.builds(
            pgoutput.Relation,
            xid=xid,
            oid=oids,
            namespace=namespaces,
            name=names,
            replica_identity=st.sampled_from("dnfi"),
            columns=st.lists(columns, max_size=4).map(tuple),
        ),
        "Type": st.builds(pgoutput.Type, xid=xid, oid=oids, namespace=namespaces, name=names),
        "Insert": st.builds(pgoutput.Insert, xid=xid, relation_oid=oids, new=row),
        "Update": st.one_of(
            st.builds(
                pgoutput.Update, xid=xid, relation_oid=oids, old_is_key=st.just(False), old=st.none(), new=row
            ),
            st.builds(
                pgoutput.Update, xid=xid, relation_oid=oids, old_is_key=st.booleans(), old=row, new=row
            ),
        ),
        "Delete": st.builds(pgoutput.Delete, xid=xid, relation_oid=oids, old_is_key=st.booleans(), old=row),
        "Truncate": st.builds(
            pgoutput.Truncate,
            xid=xid,
            cascade=st.booleans(),
            restart_identity=st.booleans(),
            relation_oids=st.lists(oids, max_size=4).map(tuple),
        ),
        "Message": st.builds(
            pgoutput.Message,
            xid=xid,
            transactional=st.booleans(),
            lsn=lsns,
            prefix=names,
            content=st.binary(max_size=12),
        ),
    }


def _prepared(
    cls: type[transactions.Prepare | transactions.BeginPrepare],
) -> SearchStrategy[PgoutputMessage]:
    return st.builds(cls, prepare_lsn=lsns, end_lsn=lsns, prepare_us=times, xid=xids, gid=names)


PLAIN: dict[str, SearchStrategy[PgoutputMessage]] = {
    "Begin": st.builds(transactions.Begin, commit_lsn=lsns, commit_us=times, xid=xids),
    "Commit": st.builds(transactions.Commit, commit_lsn=lsns, end_lsn=lsns, commit_us=times),
    "Origin": st.builds(pgoutput.Origin, commit_lsn=lsns, name=names),
    **_changes(st.none()),
    "StreamStart": st.builds(transactions.StreamStart, xid=xids, first=st.booleans()),
    "StreamCommit": st.builds(
        transactions.StreamCommit, xid=xids, commit_lsn=lsns, end_lsn=lsns, commit_us=times
    ),
    "StreamAbort": st.builds(transactions.StreamAbort, xid=xids, subxid=xids),
    "StreamAbort with streaming parallel": st.builds(
        transactions.StreamAbort, xid=xids, subxid=xids, abort_lsn=lsns, abort_us=times
    ),
    "BeginPrepare": _prepared(transactions.BeginPrepare),
    "Prepare": _prepared(transactions.Prepare),
    "CommitPrepared": st.builds(
        transactions.CommitPrepared, commit_lsn=lsns, end_lsn=lsns, commit_us=times, xid=xids, gid=names
    ),
    "RollbackPrepared": st.builds(
        transactions.RollbackPrepared,
        prepare_end_lsn=lsns,
        end_lsn=lsns,
        prepare_us=times,
        rollback_us=times,
        xid=xids,
        gid=names,
    ),
    "StreamPrepare": _prepared(transactions.StreamPrepare),
}
IN_STREAM: dict[str, SearchStrategy[PgoutputMessage]] = {
    "Origin": PLAIN["Origin"],
    **_changes(xids),
    "StreamStop": st.builds(transactions.StreamStop),
}


class Sent(NamedTuple):
    message: PgoutputMessage
    data: bytes
    in_stream: bool

    @property
    def name(self) -> str:
        return type(self.message).__name__


EVERY_MESSAGE: dict[str, SearchStrategy[Sent]] = {
    **{name: drawn.map(lambda it: Sent(it, write(it), False)) for name, drawn in PLAIN.items()},
    **{
        f"{name} in a stream": drawn.map(lambda it: Sent(it, write(it), True))
        for name, drawn in IN_STREAM.items()
    },
}


def row(data: TupleData) -> Row:
    return list(_values(data))


def _values(data: TupleData) -> Iterator[Value]:
    for kind, value in zip(data.kinds, data.values, strict=True):
        match chr(kind), value:
            case "n", None:
                yield None
            case "u", None:
                yield UNCHANGED
            case "t", bytes(text):
                yield text
            case "b", bytes(binary):
                yield Binary(binary)


def write(message: PgoutputMessage) -> bytes:
    """The bytes that the server would send for these values."""
    match message:
        case transactions.Begin(lsn, us, xid):
            return build.begin(lsn, us, xid)
        case transactions.Commit(lsn, end, us):
            return build.commit(lsn, end, us)
        case pgoutput.Origin(lsn, name):
            return build.origin(lsn, name)
        case pgoutput.Relation(xid, oid, namespace, name, identity, columns):
            written = [Column(it.name, it.type_oid, it.key, it.typmod) for it in columns]
            return build.relation(oid, namespace, name, identity, written, xid)
        case pgoutput.Type(xid, oid, namespace, name):
            return build.type_(oid, namespace, name, xid)
        case pgoutput.Insert(xid, oid, new):
            return build.insert(oid, row(new), xid)
        case pgoutput.Update(xid, oid, _, None, new):
            return build.update(oid, row(new), xid=xid)
        case pgoutput.Update(xid, oid, True, TupleData() as old, new):
            return build.update(oid, row(new), key=row(old), xid=xid)
        case pgoutput.Update(xid, oid, False, TupleData() as old, new):
            return build.update(oid, row(new), old=row(old), xid=xid)
        case pgoutput.Delete(xid, oid, True, old):
            return build.delete(oid, key=row(old), xid=xid)
        case pgoutput.Delete(xid, oid, False, old):
            return build.delete(oid, old=row(old), xid=xid)
        case pgoutput.Truncate(xid, cascade, restart, oids):
            return build.truncate(oids, cascade=cascade, restart_identity=restart, xid=xid)
        case pgoutput.Message(xid, transactional, lsn, prefix, content):
            return build.message(prefix, content, lsn=lsn, transactional=transactional, xid=xid)
        case transactions.StreamStart(xid, first):
            return build.stream_start(xid, first)
        case transactions.StreamStop():
            return build.stream_stop()
        case transactions.StreamCommit(xid, lsn, end, us):
            return build.stream_commit(xid, lsn, end, us)
        case transactions.StreamAbort(xid, subxid, lsn, us):
            return build.stream_abort(xid, subxid, abort_lsn=lsn, abort_us=us)
        case transactions.BeginPrepare(lsn, end, us, xid, gid):
            return build.begin_prepare(lsn, end, xid, gid, us)
        case transactions.StreamPrepare(lsn, end, us, xid, gid):
            return build.stream_prepare(lsn, end, xid, gid, us)
        case transactions.Prepare(lsn, end, us, xid, gid):
            return build.prepare(lsn, end, xid, gid, us)
        case transactions.CommitPrepared(lsn, end, us, xid, gid):
            return build.commit_prepared(lsn, end, xid, gid, us)
        case transactions.RollbackPrepared(prepare_end, end, us, rollback_us, xid, gid):
            return build.rollback_prepared(prepare_end, end, xid, gid, us, rollback_us)
    raise AssertionError(message)
