"""Mirrors of whole transactions: however Spark cuts batches, no version of a table shows half of one."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from pgrelay import spark as pg
from pgrelay.embedded.registry import SchemaRegistry
from pgrelay.errors import SetupError
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.mirrors.batches import Batches
from pgrelay.spark.mirrors.query_state import held_since
from pgrelay.spark.mirrors.state_tables import StateTables
from pgrelay.spark.schemas.columns import Column
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import Message, change, flat, rows

ID = Column("id", "int4", key=True, encoding="integer")


@pytest.fixture
def target(prefix: str) -> str:
    return f"iceberg.lake.{prefix}"


def versions(spark: SparkSession, table: str, using: Using) -> list[int]:
    if using == "delta":
        return [row.version for row in spark.sql(f"DESCRIBE HISTORY {table}").collect()]
    return [row.snapshot_id for row in spark.table(f"{table}.snapshots").collect()]


@pytest.mark.parametrize(("using", "transactions"), [("delta", 2), ("iceberg", 3)], ids=["delta", "iceberg"])
def test_no_version_of_a_table_shows_half_a_transaction(
    spark: SparkSession,
    new_relay: NewRelay,
    database: Database,
    tmp_path: Path,
    prefix: str,
    using: Using,
    transactions: int,
) -> None:
    """There is a batch for each, and all except the last cut the next one."""
    database.execute(
        "CREATE TABLE a (id int PRIMARY KEY, txn int); CREATE TABLE b (id int PRIMARY KEY, txn int)"
    )
    database.execute("CREATE TABLE other (id int PRIMARY KEY)")
    relay = new_relay(records={"transaction_topic": True}).start().wait_streaming()
    for txn in range(transactions):
        made = f"SELECT {txn * 20} + i, {txn} FROM generate_series(1, 20) i"
        database.execute(f"BEGIN; INSERT INTO a {made}; INSERT INTO b {made}; COMMIT")
    database.execute("INSERT INTO other VALUES (1)")
    relay.caught_up()
    catalog = "iceberg." if using == "iceberg" else ""
    names = {relay.topic(table): f"lake_{prefix}.{table}" for table in ("a", "b")}

    def mirror() -> None:
        query = pg.mirror(
            spark,
            relay.kafka.bootstrap,
            names,
            prefix=relay.prefix,
            checkpoint=str(tmp_path / "checkpoint"),
            using=using,
            whole_transactions=True,
            trigger={"availableNow": True},
            options={"maxOffsetsPerTrigger": "50"},
        )
        query.awaitTermination()

    mirror()
    for table in ("a", "b"):
        name = f"{catalog}lake_{prefix}.{table}"
        seen = {
            spark.sql(f"SELECT * FROM {name} VERSION AS OF {version}").count()
            for version in versions(spark, name, using)
        }
        assert seen | {0} == {20 * txn for txn in range(transactions + 1)}
    database.execute("BEGIN; UPDATE a SET txn = 9 WHERE id <= 20; DELETE FROM b WHERE id <= 20; COMMIT")
    relay.caught_up()
    mirror()
    ends = [r.json for r in relay.read(f"{relay.prefix}.transaction") if r.json["status"] == "END"]
    position = pg.mirror_position(spark, names[relay.topic("b")], using=using)
    assert position is not None
    assert position.commit_lsn == ends[-1]["commit_lsn"]
    for table in ("a", "b"):
        name = names[relay.topic(table)]
        then = spark.sql(f"SELECT * FROM {catalog}{name} VERSION AS OF {position.versions[name]}")
        with database.connect() as connection:
            expected = connection.execute(f"SELECT id, txn FROM {table}".encode()).fetchall()
        assert sorted(rows(then, "id", "txn").elements()) == sorted(expected)


def test_an_end_read_before_its_rows_waits_for_them(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    handmade.table("a", ID)
    handmade.table("b", ID)
    targets = {table: f"{target}_{table}" for table in ("a", "b")}

    def counts() -> list[int]:
        handmade.mirror(targets, whole_transactions=True)
        return [spark.table(name).count() for name in targets.values()]

    def position() -> str:
        return str(pg.mirror_position(spark, targets["a"], using="iceberg"))

    handmade.end(90, b=1)
    handmade.end(100, a=3)
    handmade.write("b", in_transaction("c", 90, after={"id": 1}))
    handmade.write("a", in_transaction("c", 100, 0, after={"id": 1}))
    assert counts() == [0, 1]
    assert position() == "0/5A"
    # Nobody else would ever apply the waiting rows, whatever Spark's options allow.
    with pytest.raises(SetupError, match=r"__held_.* holds rows back .* go on with whole_transactions"):
        handmade.mirror(targets, options={"failOnDataLoss": "false"})
    handmade.write("b", in_transaction("c", 200, after={"id": 2}))
    handmade.end(200, b=1)
    handmade.write("a", *(in_transaction("c", 100, n, after={"id": n + 1}) for n in (1, 2)))
    assert counts() == [3, 2]
    assert position() == "0/C8"
    # Its own tables can be dropped like targets.
    shown = spark.sql(f"SHOW TABLES IN iceberg.lake LIKE '{handmade.prefix}__*'").collect()
    held, kept = sorted(row["tableName"] for row in shown)
    handmade.write("b", in_transaction("c", 300, after={"id": 3}))
    pg.drop(spark, f"lake.{held}", using="iceberg")
    with pytest.raises(StreamingQueryException, match=r"__held_.* does not exist.*take a new checkpoint"):
        counts()
    pg.drop(spark, f"lake.{kept}", using="iceberg")
    assert pg.mirror_position(spark, targets["a"], using="iceberg") is None
    with pytest.raises(StreamingQueryException, match=r"__position_.* does not exist.*take a new checkpoint"):
        counts()


def in_transaction(*place: Any, **row: Any) -> Message:
    """A change from a relay with a transaction topic."""
    made = change(*place, **row)
    assert made.value is not None
    committed = made.value.replace(b'"ts_us":%d' % (1_000_000 + place[1]), b'"ts_us":%d' % (place[1] * 10**6))
    return replace(made, value=committed.replace(b'"transaction":null', b'"transaction":{"id":"7:1"}'))


def test_ends_may_be_read_long_before_a_large_transactions_rows(
    spark: SparkSession,
    new_relay: NewRelay,
    schema_registry: SchemaRegistry,
    database: Database,
    tmp_path: Path,
    prefix: str,
) -> None:
    """In Avro, whose schemas distinguish boundaries from rows."""
    database.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    avro = {"format": "avro", "schema_registry": {"url": schema_registry.url}}
    relay = new_relay(records={"transaction_topic": True, **avro}).start().wait_streaming()
    database.execute("INSERT INTO a SELECT generate_series(1, 60)")
    for number in range(8):
        database.execute(f"INSERT INTO b VALUES ({number})")
    relay.caught_up()
    names = {relay.topic(table): f"lake_{prefix}.{table}" for table in ("a", "b")}
    query = pg.mirror(
        spark,
        relay.kafka.bootstrap,
        names,
        prefix=relay.prefix,
        checkpoint=str(tmp_path / "checkpoint"),
        using="iceberg",
        whole_transactions=True,
        registry=schema_registry.url,
        trigger={"availableNow": True},
        options={"maxOffsetsPerTrigger": "30"},  # each topic gets its share
    )
    query.awaitTermination()
    name = f"iceberg.lake_{prefix}.a"
    at = versions(spark, name, "iceberg")
    seen = [spark.sql(f"SELECT * FROM {name} VERSION AS OF {version}").count() for version in at]
    assert set(seen) == {60}
    assert spark.table(f"iceberg.lake_{prefix}.b").count() == 8


def test_a_table_that_is_not_mirrored_whole_has_no_position(spark: SparkSession, target: str) -> None:
    with pytest.raises(SetupError, match=r"no such iceberg table; correct the name, or pass using='delta'"):
        pg.mirror_position(spark, target, using="iceberg")
    spark.sql(f"CREATE TABLE {target} (id int) USING iceberg")
    with pytest.raises(SetupError, match="is not a target of a mirror"):
        pg.mirror_position(spark, target, using="iceberg")


def test_each_mirror_holds_back_its_own_rows(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    """Another mirror of the prefix is ahead, and a target of another namespace sorts before its first."""
    for table in ("a", "b"):
        handmade.table(table, ID)
    a, b = f"{target}_a", f"iceberg.elsewhere_{handmade.prefix}.b"
    handmade.write("a", in_transaction("c", 100, 0, after={"id": 1}))
    handmade.end(100, a=2)
    handmade.mirror({"a": a}, whole_transactions=True)
    handmade.write("b", in_transaction("c", 200, after={"id": 1}))
    handmade.end(200, b=1)
    handmade.mirror({"b": f"{target}_b"}, whole_transactions=True, checkpoint="another")
    assert str(pg.mirror_position(spark, f"{target}_b", using="iceberg")) == "0/C8"
    assert spark.table(a).isEmpty()
    handmade.write("a", in_transaction("c", 100, 1, after={"id": 2}))
    handmade.mirror({"b": b, "a": a}, whole_transactions=True)
    assert [spark.table(name).count() for name in (a, b)] == [2, 1]
    assert pg.mirror_position(spark, a, using="iceberg") == pg.mirror_position(spark, b, using="iceberg")


def test_a_targets_position_is_that_of_the_mirror_that_began_last(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    handmade.table("a", ID)
    for lsn in (100, 200):
        handmade.write("a", in_transaction("c", lsn, after={"id": lsn}))
        handmade.end(lsn, a=1)
    handmade.mirror({"a": target}, whole_transactions=True)
    assert str(pg.mirror_position(spark, target, using="iceberg")) == "0/C8"
    handmade.write("a", Message(b"garbage"))
    # Two batches reach 100, and the third has the garbage: it ends before it has caught up with the target.
    one = {"maxOffsetsPerTrigger": "3"}
    with pytest.raises(StreamingQueryException, match="no record of a table's change"):
        handmade.mirror({"a": target}, whole_transactions=True, checkpoint="new", options=one)
    assert spark.table(target).count() == 2
    assert pg.mirror_position(spark, target, using="iceberg") is None
    with pytest.raises(StreamingQueryException, match="is kept whole by another mirror"):
        handmade.mirror({"a": target}, whole_transactions=True)


def one_of_two_mirrored(handmade: HandmadeRelay, target: str) -> tuple[str, str]:
    """Tables a and b, of which a is mirrored up to LSN 100; the targets of both."""
    a, b = f"{target}_a", f"{target}_b"
    for table in ("a", "b"):
        handmade.table(table, ID)
    handmade.write("a", in_transaction("c", 100, after={"id": 1}))
    handmade.end(100, a=1)
    handmade.mirror({"a": a}, whole_transactions=True)
    return a, b


def test_an_added_table_holds_the_position_until_it_has_caught_up(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    a, b = one_of_two_mirrored(handmade, target)
    handmade.write("b", *(in_transaction("c", 10 + n, after={"id": n}) for n in range(30)))
    handmade.write("b", Message(b"garbage"))
    handmade.write("a", in_transaction("c", 200, after={"id": 2}))
    handmade.end(200, a=1)
    some = {"maxOffsetsPerTrigger": "12"}
    with pytest.raises(StreamingQueryException, match="no record of a table's change"):
        handmade.mirror({"a": a, "b": b}, whole_transactions=True, options=some)
    assert spark.table(a).count() == 2
    assert 0 < spark.table(b).count() < 30
    assert str(pg.mirror_position(spark, a, using="iceberg")) == "0/64"
    handmade.mirror({"a": a, "b": b}, whole_transactions=True, options=some, corrupt_to=f"{target}_bad")
    assert spark.table(b).count() == 30
    assert str(pg.mirror_position(spark, b, using="iceberg")) == "0/C8"


def test_a_table_added_while_a_batch_comes_again_holds_the_position_too(
    spark: SparkSession, handmade: HandmadeRelay, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repeated batch was planned without the table."""
    a, b = one_of_two_mirrored(handmade, target)
    handmade.write("a", in_transaction("c", 200, after={"id": 2}))
    handmade.end(200, a=1)
    with monkeypatch.context() as patched:
        patched.setattr(Batches, "apply_topics", cut)
        with pytest.raises(StreamingQueryException, match="cut short"):
            handmade.mirror({"a": a}, whole_transactions=True)
    handmade.write("b", in_transaction("c", 10, after={"id": 1}), Message(b"garbage"))
    with pytest.raises(StreamingQueryException, match="no record of a table's change"):
        handmade.mirror({"a": a, "b": b}, whole_transactions=True)
    assert spark.table(a).count() == 2
    assert str(pg.mirror_position(spark, a, using="iceberg")) == "0/64"


def cut(*_: object) -> None:
    raise SetupError("cut short")


def test_a_target_of_another_topic_is_left_to_its_mirror(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    for table in ("a", "b"):
        handmade.table(table, ID)
    handmade.write("a", in_transaction("c", 100, after={"id": 1}))
    handmade.write("b", in_transaction("c", 110, after={"id": 1}))
    handmade.end(100, a=1)
    handmade.end(110, b=1)
    handmade.mirror({"a": target}, whole_transactions=True)
    kept = pg.mirror_position(spark, target, using="iceberg")
    with pytest.raises(StreamingQueryException, match="has the rows of"):
        handmade.mirror({"b": target}, checkpoint="mistaken", whole_transactions=True)
    assert pg.mirror_position(spark, target, using="iceberg") == kept is not None
    assert spark.table(target).count() == 1


def test_the_target_of_a_history_is_left_to_it(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    handmade.table("a", ID)
    handmade.write("a", in_transaction("c", 100, after={"id": 1}))
    handmade.end(100, a=1)
    handmade.mirror({"a": target}, query_function=pg.history, checkpoint="history")
    with pytest.raises(StreamingQueryException, match="is the target of a history, not of a mirror"):
        handmade.mirror({"a": target}, whole_transactions=True)
    with pytest.raises(SetupError, match="is not a target of a mirror"):
        pg.mirror_position(spark, target, using="iceberg")


def warnings(logs: Sequence[Any]) -> list[Any]:
    return [each for each in logs if each["log_level"] == "warning"]


def test_unreadable_records_are_waited_for_until_their_topic_is_past_them(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    handmade.table("a", ID)

    def mirror() -> tuple[int, float | None, list[Any]]:
        with capture_logs() as logs:
            query = handmade.mirror({"a": target}, whole_transactions=True, corrupt_to=f"{target}_bad")
        lost = [(each["commit_lsn"], each["records"], each["of"]) for each in warnings(logs)]
        return spark.table(target).count(), held_since[str(query.id)], lost

    handmade.write("a", in_transaction("c", 100, after={"id": 1}))
    handmade.end(100, a=1)
    handmade.write("a", in_transaction("c", 200, 0, after={"id": 2}), Message(b"garbage"))
    handmade.end(200, a=2)
    assert mirror() == (1, 200.0, [])
    handmade.write("a", in_transaction("c", 300, after={"id": 3}))
    handmade.end(300, a=1)
    assert mirror() == (3, None, [("0/C8", 1, 2)])
    assert str(pg.mirror_position(spark, target, using="iceberg")) == "0/12C"


def test_a_relay_without_a_transaction_topic_is_reported(
    spark: SparkSession, handmade: HandmadeRelay, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every envelope: an error at the first batch if it never wrote one, and later a warning."""
    monkeypatch.setattr("pgrelay.spark.mirrors.whole_transactions._TIMEOUT_S", 0.5)
    handmade.table("a", ID)
    handmade.write("a", flat("c", 50, row={"id": 1}))
    with pytest.raises(StreamingQueryException, match=r"has no records.*transaction_topic: true"):
        handmade.mirror({"a": target}, whole_transactions=True)
    # It is switched on: earlier rows are whole from the first transaction on.
    handmade.write("a", flat("c", 100, row={"id": 2}))
    handmade.end(100, a=1)
    handmade.mirror({"a": target}, whole_transactions=True)
    assert spark.table(target).count() == 2
    # It is switched off again.
    handmade.write("a", *(flat("c", 200 + n, row={"id": n}) for n in range(3)))
    with capture_logs() as logs:
        query = handmade.mirror({"a": target}, whole_transactions=True, options={"maxOffsetsPerTrigger": "1"})
    [warning] = warnings(logs)
    assert "the transaction topic has none" in warning["event"]
    assert (warning["table"], warning["commit_lsn"]) == (handmade.topic("a"), "0/C8")
    assert held_since[str(query.id)] is not None
    assert spark.table(target).count() == 2


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_every_prefix_gives_legal_table_names(spark: SparkSession, using: Using) -> None:
    state = StateTables.of(spark, "shop-prod.eu", "01234567-89ab", {"shop-prod.eu.public.a": "lake.a"}, using)
    state.create(["shop-prod.eu.public.a"], 0)
    assert lake_table(spark, "lake.shop_prod_eu__position_01234567", using).exists()
    assert state.held.after(0).isEmpty()
