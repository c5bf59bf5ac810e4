"""pgrelay and Debezium 3.7 side by side: the same database, the same workload, their topics compared.

`make debezium-diff` prints the differences and their reasons. A difference without a reason here fails the
test, and so does a reason that no difference needs any more.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pgrelay.embedded.jars import Unavailable
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.debezium import workload
from tests.integration.debezium.connector import connector
from tests.integration.debezium.difference import Difference, differences, transaction_differences
from tests.integration.debezium.reasons import REASONS
from tests.integration.relays import Relay
from tests.integration.servers import KafkaServer
from tests.integration.topics import Record, read_topic
from tests.unavailable import skip

ROOT = Path(__file__).parents[3]

# Settings that bring pgrelay closest to Debezium's defaults, and Debezium closest to the contract.
OURS = {"numeric": "precise", "time": "debezium", "unchanged": "placeholder", "transaction_topic": True}
THEIRS = {
    "publication.name": "everything",
    "skipped.operations": "none",
    "interval.handling.mode": "string",
    "hstore.handling.mode": "map",
    "provide.transaction.metadata": "true",
}


@pytest.fixture
def found(
    database: Database, kafka: KafkaServer, new_relay: NewRelay, prefix: str, tmp_path: Path
) -> list[Difference]:
    """All differences after the workload. Debezium's slot has the name of the topics' prefix."""
    workload.create(database)
    relay = new_relay("_ours", source={"publications": ["everything"]}, records=OURS)
    theirs = f"{prefix}_theirs"
    with ExitStack() as stack:
        try:
            stack.enter_context(connector(database, kafka, theirs, tmp_path, THEIRS))
        except Unavailable as error:
            skip(error)
        relay.start().wait_streaming()
        workload.run(database)
        relay.caught_up()
        read_topic(kafka.bootstrap, f"{theirs}.public.sentinel", 1, timeout=120)
    return list(_compared(relay, theirs))


def _compared(relay: Relay, theirs: str) -> Iterator[Difference]:
    topics = {table: relay.topic(table) for table in workload.TABLES} | {"a b": relay.topic("a..20..b")}
    for table, topic in topics.items():
        # Debezium has one topic for "a b" and a_b.
        name = table.replace(" ", "_")
        if name != table:
            yield Difference(table, "any", "topic", topic.removeprefix(f"{relay.prefix}."), f"public.{name}")
        records = [it for it in _read(relay, f"{theirs}.public.{name}") if _is_of(table, it)]
        yield from differences(table, relay.read(topic), records)
    for table in map(workload.key_table, workload.KEYS):
        records = _read(relay, f"{theirs}.public.{table}")
        # Their values are in `types` too: here it is the bytes of the key.
        yield from (
            it for it in differences(table, relay.read(relay.topic(table)), records) if it.field == "key"
        )
    messages, transactions = (
        (relay.read(f"{relay.prefix}.{topic}"), _read(relay, f"{theirs}.{topic}"))
        for topic in ("message", "transaction")
    )
    yield from differences("(messages)", *messages)
    yield from transaction_differences(*transactions)


def _is_of(table: str, record: Record) -> bool:
    return record.json is None or record.json["source"]["table"] == table


def _read(relay: Relay, topic: str) -> list[Record]:
    return read_topic(relay.kafka.bootstrap, topic)


@pytest.mark.timeout(600)
def test_every_difference_has_a_reason(found: list[Difference], capsys: pytest.CaptureFixture[str]) -> None:
    explained: defaultdict[str, list[Difference]] = defaultdict(list)
    for difference in found:
        reason = next((it for it in REASONS if it.explains(difference)), None)
        explained[reason.text if reason else "WITHOUT A REASON"].append(difference)
    with capsys.disabled():
        print_report(explained)
    assert not explained.get("WITHOUT A REASON")
    assert [it.text for it in REASONS if it.text not in explained] == []


def print_report(explained: dict[str, list[Difference]]) -> None:
    for reason, group in explained.items():
        print(f"\n{reason} ({len(group)})")
        for line in list(dict.fromkeys(map(str, group)))[:6]:
            print(f"    {line}")


def test_every_reason_is_documented() -> None:
    page = (ROOT / "docs" / "records.md").read_text()
    assert [reason.text for reason in REASONS if f"| {reason.text} |" not in page] == []


@pytest.mark.parametrize("page", ["README.md", "docs/migrating.md"])
def test_pages_give_the_right_number_of_differences(page: str) -> None:
    assert re.findall(r"(\d+) differences", (ROOT / page).read_text()) == [str(len(REASONS))]
