"""The topics that a run writes to."""

from dataclasses import replace
from typing import Any

from pgrelay.check.findings import Finding
from pgrelay.check.table_queries import Table
from pgrelay.check.topics import WantedTopic, wanted_topics
from pgrelay.config import Config
from tests.check.tables import published, table

SCHEMA = WantedTopic("app.schema", "schemas")
OFFSETS = WantedTopic("app.offsets", "offsets")


def topics_of(
    *tables: Table, messages: bool = False, **records: Any
) -> tuple[list[WantedTopic], list[Finding]]:
    sections = {
        "source": {"dsn": "", "messages": messages},
        "sink": {"kafka": {"bootstrap.servers": "b"}},
        "records": records,
    }
    config = Config.model_validate(sections)
    return wanted_topics(published(*tables, truncates=False), config)


def test_each_table_has_a_topic_beside_our_own_topics() -> None:
    topics, found = topics_of(
        table("orders"),
        table("log", identity="f", primary_key=()),
        messages=True,
        transaction_topic=True,
    )
    assert found == []
    assert topics == [
        WantedTopic("app.public.orders"),
        WantedTopic("app.public.log", keyless=True),
        SCHEMA,
        WantedTopic("app.transaction", "transactions"),
        OFFSETS,
        WantedTopic("app.message", "messages"),
    ]


def test_with_keys_off_every_topic_is_keyless() -> None:
    topics, _ = topics_of(table(), messages=True, key=False)
    assert topics == [
        WantedTopic("app.public.orders", keyless=True),
        SCHEMA,
        OFFSETS,
        WantedTopic("app.message", "messages", keyless=True),
    ]


def test_tables_may_share_a_route() -> None:
    route = {"match": r"public\.orders_.*", "topic": "{prefix}.orders"}
    topics, found = topics_of(table("orders_a"), table("orders_b", identity="n"), routes=[route])
    assert found == []
    assert topics == [WantedTopic("app.orders", keyless=True), SCHEMA, OFFSETS]


def test_a_topic_is_partial_if_one_of_its_tables_is() -> None:
    route = {"match": r"public\.orders_.*", "topic": "{prefix}.orders"}
    config = Config.model_validate(
        {
            "source": {"dsn": "", "messages": False},
            "sink": {"kafka": {"bootstrap.servers": "b"}},
            "records": {"routes": [route]},
        }
    )
    relayed = published(table("orders_a", 1, large=True), table("orders_b", 2), table("log", 3))
    topics, _ = wanted_topics(replace(relayed, truncates=False), config)
    assert topics[:2] == [WantedTopic("app.orders", partial=True), WantedTopic("app.public.log")]


def test_only_topics_of_tables_have_the_record_of_a_truncate() -> None:
    config = Config.model_validate({"source": {"dsn": ""}, "sink": {"kafka": {"bootstrap.servers": "b"}}})
    topics, _ = wanted_topics(published(table()), config)
    assert [topic.kind for topic in topics if topic.truncates] == ["rows"]


def test_tables_that_share_a_topic_by_accident_are_an_error() -> None:
    tables = (table(schema="s_", name="t"), table(schema="s", name="_t"))
    topics, found = topics_of(*tables, topic="{prefix}_{schema}_{table}")
    assert topics == [WantedTopic("app_s__t"), SCHEMA, OFFSETS]
    (finding,) = found
    assert finding.level == "error"
    assert "would share the topic" in finding.what
    assert "records." in finding.cure


def test_many_tables_that_share_a_topic_are_counted() -> None:
    _, found = topics_of(*(table(schema=f"s{n}", name="t") for n in range(9)), topic="{prefix}.{table}")
    assert len(found) == 6
    assert found[-1].what == "3 more tables would share a topic with another"
