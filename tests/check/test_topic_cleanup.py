"""Topics whose cleanup refuses records, or deletes what is still needed."""

from dataclasses import replace

from pgrelay.check.topic_cleanup import (
    keyless_compacted,
    large_values_lost,
    needed_records_deleted,
    shared_keys_compacted,
)
from pgrelay.check.topics import WantedTopic
from tests.check.kafka_topics import BROKER, COMPACTED, LASTING, LOG, MESSAGE, OFFSETS, ORDERS, SCHEMA


def test_a_schema_topic_that_deletes_records_is_a_warning() -> None:
    (finding,) = needed_records_deleted([ORDERS, SCHEMA], {"orders": BROKER, "schema": BROKER})
    assert finding.level == "warning"
    assert "--topic schema --add-config cleanup.policy=delete,retention.ms=-1" in finding.cure
    assert needed_records_deleted([ORDERS, SCHEMA], {"orders": BROKER, "schema": LASTING}) == []


def test_an_offsets_topic_that_deletes_records_is_an_error() -> None:
    (finding,) = needed_records_deleted([OFFSETS], {"offsets": BROKER})
    assert finding.level == "error"
    assert finding.cure.endswith("--add-config cleanup.policy=compact")
    assert (
        needed_records_deleted([OFFSETS], {"offsets": COMPACTED})
        == needed_records_deleted([OFFSETS], {"offsets": LASTING})
        == []
    )


def test_a_compacted_topic_for_records_without_keys_is_an_error() -> None:
    configs = {"orders": COMPACTED, "log": COMPACTED}
    orders, log = replace(ORDERS, truncates=True), replace(LOG, truncates=True)
    keyless, truncate = keyless_compacted([orders, log, MESSAGE], configs)
    assert (keyless.level, truncate.level) == ("error", "warning")
    assert keyless.what.endswith(": log")
    assert truncate.what.endswith(": orders")
    assert keyless_compacted([ORDERS], configs) == []
    assert keyless_compacted([SCHEMA, OFFSETS], {"schema": COMPACTED, "offsets": COMPACTED}) == []
    assert keyless_compacted([log], {"log": BROKER}) == []


def test_compacted_topics_of_tables_with_large_values_are_a_warning() -> None:
    partial, keyless = replace(ORDERS, partial=True), replace(LOG, partial=True)
    configs = {"orders": COMPACTED, "log": COMPACTED}
    (finding,) = large_values_lost([partial, keyless], configs)
    assert finding.level == "warning"
    assert finding.what == "1 compacted topic of tables with large values (TOAST): orders"
    assert "REPLICA IDENTITY FULL" in finding.cure
    assert large_values_lost([ORDERS, keyless], configs) == []
    assert large_values_lost([partial], {"orders": BROKER}) == large_values_lost([partial], {}) == []


def test_messages_and_transactions_in_compacted_topics_are_a_warning() -> None:
    transactions = WantedTopic("transaction", "transactions")
    wanted = [ORDERS, MESSAGE, transactions]
    configs = {"orders": COMPACTED, "message": COMPACTED, "transaction": COMPACTED}
    found = shared_keys_compacted(wanted, configs)
    assert [finding.what for finding in found] == [
        "topic message is compacted",
        "topic transaction is compacted",
    ]
    assert {finding.level for finding in found} == {"warning"}
    assert shared_keys_compacted(wanted, configs | {"message": BROKER, "transaction": LASTING}) == []
    # The same topic is an error elsewhere.
    assert shared_keys_compacted([replace(MESSAGE, keyless=True)], configs) == []
