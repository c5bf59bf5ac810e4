"""The encoder's needs, supplied by a catalogue, a broker and a registry that may refuse some of them."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Self, cast

import pytest

from pgrelay.assembly.events import Event
from pgrelay.encode.avro.schema import SchemaIds, Schemas
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.records import Record, Segment
from pgrelay.errors import KafkaUnavailable, PgrelayError, RecordRefused, SetupError
from pgrelay.kafka.registry import Registry
from pgrelay.kafka.sink import Sink
from pgrelay.postgres.catalog import Catalog
from pgrelay.relay.supply import Supply
from tests.encode.encoding import NOW, OPTIONS, encoder_of, transaction
from tests.wire import build
from tests.wire.build import INT4, Column

TABLES: Final = {"a": 16384, "b": 16385, "c": 16386, "d": 16387}


class Outside:
    """A catalogue, broker and registry in one, which refuses everything about one topic."""

    def __init__(self, refuses: str = "", with_: PgrelayError | None = None) -> None:
        self.asked: list[list[str]] = []
        self.published: list[str] = []
        self._refuses = refuses
        self._error = with_ or SetupError("refused")

    @property
    def topics(self) -> Self:
        return self

    async def require_all(self, topics: Sequence[str]) -> None:
        self.asked.append([topic.rpartition(".")[2] for topic in topics])
        if self._refuses in topics:
            raise self._error

    async def publish(self, records: Sequence[Record]) -> None:
        self.published += [str(key) for _, key, *_ in records]

    async def register(self, schemas: Schemas) -> SchemaIds:
        if schemas.topic == self._refuses:
            raise self._error
        return SchemaIds(1, 2)


class Slow(Outside):
    """Its registry answers once every topic has been asked for."""

    def __init__(self, topics: int) -> None:
        super().__init__()
        self._all = asyncio.Barrier(topics)

    async def register(self, schemas: Schemas) -> SchemaIds:
        await self._all.wait()
        return await super().register(schemas)


class Once(Outside):
    """When the table's turn comes, somebody has created its topic."""

    async def require_all(self, topics: Sequence[str]) -> None:
        try:
            await super().require_all(topics)
        finally:
            self._refuses = ""


class InRegistry(Outside):
    """The registry refuses instead."""

    async def require_all(self, topics: Sequence[str]) -> None:
        self.asked.append([topic.rpartition(".")[2] for topic in topics])


def rows_of(*tables: str) -> list[Event]:
    """A transaction for each table in turn."""
    events: list[Event] = []
    for number, table in enumerate(tables):
        relation = build.relation(TABLES[table], "public", table, "d", [Column("id", INT4, key=True)])
        row = build.insert(TABLES[table], ["1"])
        events += transaction(relation, row, commit_lsn=0x2000 * (number + 1), lsn=0x2000 * number + 0x100)
    return events


async def relayed(encoder: Encoder, outside: Outside, events: list[Event], into: list[str]) -> None:
    """Encode everything, as a session does; `into` collects the topics of the rows."""
    await met(encoder, supply_of(encoder, outside), events, into)


def supply_of(encoder: Encoder, outside: Outside) -> Supply:
    return Supply(encoder, cast(Catalog, outside), cast(Sink, outside), cast(Registry, outside))


async def met(encoder: Encoder, supply: Supply, events: list[Event], into: list[str]) -> None:
    encoder.feed(events)
    while encoder.pending:
        segments = [out for out in encoder.encode(NOW) if isinstance(out, Segment)]
        into += [record[0] for segment in segments for record in segment.records]
        if encoder.need is not None:
            await supply.meet(encoder.need)


def test_tables_that_are_new_together_are_supplied_together() -> None:
    outside, topics = Outside(), list[str]()
    asyncio.run(relayed(encoder_of(), outside, rows_of("a", "b", "c"), topics))
    assert outside.asked == [["a", "b", "c"]]
    assert [topic.rpartition(".")[2] for topic in topics] == ["a", "b", "c"]


async def test_schemas_are_registered_concurrently() -> None:
    """After each connect, all schemas are registered again."""
    outside, topics = Slow(3), list[str]()
    async with asyncio.timeout(60):
        await relayed(encoder_of(replace(OPTIONS, format="avro")), outside, rows_of("a", "b", "c"), topics)
    assert [topic.rpartition(".")[2] for topic in topics] == ["a", "b", "c"]


@pytest.mark.parametrize("kind", [Outside, InRegistry], ids=["topic", "schema"])
@pytest.mark.parametrize(
    "error", [SetupError("no"), RecordRefused("its schema is too large")], ids=["set-up", "record"]
)
def test_a_refusal_ahead_stops_nothing_before_its_turn(kind: type[Outside], error: PgrelayError) -> None:
    encoder = encoder_of(replace(OPTIONS, format="avro"))
    outside, topics = kind("app.public.c", error), list[str]()
    with pytest.raises(type(error)):
        asyncio.run(relayed(encoder, outside, rows_of("a", "b", "c"), topics))
    assert topics == ["app.public.a", "app.public.b"]
    assert outside.asked == [["a", "b", "c"], ["a"], ["b"], ["c"]]


def test_after_a_passing_refusal_tables_are_supplied_together_again() -> None:
    encoder, outside = encoder_of(), Once("app.public.b")
    supply, events = supply_of(encoder, outside), rows_of("a", "b", "c", "d")
    for both in (events[: len(events) // 2], events[len(events) // 2 :]):
        asyncio.run(met(encoder, supply, both, []))
    assert outside.asked == [["a", "b"], ["a"], ["b"], ["c", "d"]]


def test_a_skipped_transactions_table_does_not_refuse_others() -> None:
    """`pgrelay skip` goes past the transaction of a table that is refused."""
    encoder = encoder_of()
    encoder.skip_transaction(0x4000)
    topics = list[str]()
    asyncio.run(relayed(encoder, Outside("app.public.b"), rows_of("a", "b"), topics))
    assert topics == ["app.public.a"]
    assert encoder.skipped_transaction is not None


def test_a_transient_error_is_raised_at_once() -> None:
    """It concerns no single table, so asking for less would not help."""
    outside, topics = Outside("app.public.b", KafkaUnavailable("away")), list[str]()
    with pytest.raises(KafkaUnavailable):
        asyncio.run(relayed(encoder_of(), outside, rows_of("a", "b"), topics))
    assert (outside.asked, topics) == ([["a", "b"]], [])
