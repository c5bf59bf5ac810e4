"""With a real server: excluded tables, hidden columns, and tables that share a topic."""

import hmac
import json

import pytest

from tests.integration.changes import change, changes, created, deleted, updated
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.outcomes import WRONG, last_words
from tests.integration.relays import Relay
from tests.integration.topics import topic_names

SECRET = "s3cr3t-4929"
KEY = "pepper-of-the-house"


def digest(value: object) -> str:
    """The hash by which a consumer with the key would look up a value."""
    return hmac.new(KEY.encode(), json.dumps(value).encode(), "sha256").hexdigest()


def everything_told(relay: Relay) -> bytes:
    """Everything that leaves the relay: its topics with keys and headers, its log, metrics and health."""
    told = [relay.log_text.encode()]
    told += [relay.get(path)[1].encode() for path in ("/metrics", "/healthz", "/readyz")]
    topics = [name for name in topic_names(relay.kafka.bootstrap) if name.startswith(relay.prefix)]
    assert topics
    for topic in topics:
        for record in relay.read(topic):
            told += [repr((topic, record.key, record.value, record.headers)).encode()]
    return b"\n".join(told)


class TestTables:
    def test_only_included_and_not_excluded_tables_are_relayed(
        self, database: Database, new_relay: NewRelay
    ) -> None:
        tables = {"include": [r"public\..*"], "exclude": [r".*_old", r"public\.secret"]}
        relay = new_relay(records={"tables": tables}).start().wait_streaming()
        database.execute("CREATE SCHEMA other")
        for table in ("public.orders", "public.orders_old", "public.secret", "other.orders"):
            database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, note text)")
            database.execute(f"INSERT INTO {table} VALUES (1, '{SECRET}'); TRUNCATE {table}")
        database.execute("INSERT INTO orders VALUES (2); INSERT INTO secret VALUES (2)")
        relay.caught_up()
        assert [change(record).op for record in relay.records("orders")] == ["c", "t", "c"]
        assert {record.json["table"] for record in relay.read(f"{relay.prefix}.schema")} == {"orders"}
        named = {name for name in topic_names(relay.kafka.bootstrap) if name.startswith(relay.prefix)}
        assert named == {relay.topic("orders"), f"{relay.prefix}.schema", f"{relay.prefix}.offsets"}

    def test_a_truncate_of_several_tables_reaches_the_relayed_ones(
        self, database: Database, new_relay: NewRelay
    ) -> None:
        relay = new_relay(records={"tables": {"exclude": [r"public\.secret"]}}).start().wait_streaming()
        database.execute("CREATE TABLE orders (id int PRIMARY KEY); CREATE TABLE secret (id int PRIMARY KEY)")
        database.execute("INSERT INTO orders VALUES (1); INSERT INTO secret VALUES (1)")
        database.execute("TRUNCATE secret, orders")
        relay.caught_up()
        assert [change(record).op for record in relay.records("orders")] == ["c", "t"]
        assert [record.json["source"]["seq"] for record in relay.records("orders")] == [0, 0]

    def test_the_slot_moves_past_changes_of_excluded_tables(
        self, database: Database, new_relay: NewRelay
    ) -> None:
        relay = new_relay(records={"tables": {"include": [r"public\.none"]}}).start().wait_streaming()
        database.execute("CREATE TABLE orders (id int); INSERT INTO orders SELECT generate_series(1, 1000)")
        relay.caught_up()


class TestColumns:
    @pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
    @pytest.mark.parametrize("envelope", ["debezium", "flat"])
    def test_hidden_values_appear_nowhere(
        self, database: Database, new_relay: NewRelay, envelope: str, binary: bool
    ) -> None:
        for column in ("dropped", "masked", "hashed"):
            database.execute(f"CREATE TABLE {column} (id int PRIMARY KEY, card text, note text)")
            database.execute(f"ALTER TABLE {column} ALTER card SET STORAGE EXTERNAL")
            database.execute(f"ALTER TABLE {column} REPLICA IDENTITY FULL")
        columns = {
            "drop": [r"public\.dropped\.card"],
            "mask": [r"public\.masked\.card"],
            "hash": [r"public\.hashed\.card"],
            "hash_key": KEY,
        }
        relay = new_relay(
            source={"binary": binary},
            records={"columns": columns, "envelope": envelope, "headers": True, "transaction_topic": True},
            log={"level": "debug"},
        )
        relay.start().wait_streaming()
        for table in ("dropped", "masked", "hashed"):
            change_every_way(database, table)
        relay.caught_up()
        assert len(relay.records("masked")) == 9
        told = everything_told(relay)
        assert SECRET.encode() not in told
        assert KEY.encode() not in told

    @pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
    def test_hidden_values_are_replaced_as_configured(
        self, database: Database, new_relay: NewRelay, binary: bool
    ) -> None:
        database.execute("CREATE TABLE cards (id int PRIMARY KEY, a text, b text, c text, n int, d date)")
        columns = {
            "drop": [r".*\.a"],
            "mask": [r".*\.b"],
            "hash": [r".*\.[cnd]"],
            "hash_key": KEY,
            "mask_with": "#",
        }
        relay = new_relay(source={"binary": binary}, records={"columns": columns}).start().wait_streaming()
        database.execute("INSERT INTO cards VALUES (1, 'A', 'B', 'C', -7, '2026-11-20')")
        database.execute("INSERT INTO cards VALUES (2)")
        relay.caught_up()
        full = {"id": 1, "b": "#", "c": digest("C"), "n": digest(-7), "d": digest("2026-11-20")}
        null = {"id": 2, "b": "#", "c": None, "n": None, "d": None}
        assert changes(relay.records("cards")) == [created({"id": 1}, full), created({"id": 2}, null)]
        (schema,) = (record.json for record in relay.read(f"{relay.prefix}.schema"))
        told = [(column["name"], column["encoding"]) for column in schema["columns"]]
        assert told == [("id", "integer"), *((name, "string") for name in "bcnd")]

    @pytest.mark.parametrize(
        ("rename", "shown", "hidden"),
        [
            ("COLUMN card TO pan", "cards.pan", "cards.card"),
            ("TO payments", "payments.card", "cards.card"),
        ],
        ids=["the column", "the table"],
    )
    def test_a_hidden_column_is_not_shown_by_a_rename(
        self, database: Database, new_relay: NewRelay, rename: str, shown: str, hidden: str
    ) -> None:
        """Also not after another session has begun meanwhile."""
        database.execute("CREATE TABLE cards (id int PRIMARY KEY, card text)")
        relay = new_relay(records={"columns": {"mask": [r"public\.cards\.card"]}}).start().wait_streaming()
        database.execute("INSERT INTO cards VALUES (1, 'open sesame')")
        relay.caught_up()
        database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
        database.execute(f"ALTER TABLE cards RENAME {rename}")
        database.execute(f"INSERT INTO {shown.partition('.')[0]} VALUES (2, '{SECRET}')")
        assert (
            f"public.{shown} takes the place of public.{hidden}, which records.columns.mask hides"
            in last_words(relay, WRONG)
        )
        assert SECRET.encode() not in everything_told(relay)
        relay.sections["records"] = {"columns": {"mask": [r".*\.(card|pan)"]}}
        relay.start().wait_streaming()
        relay.caught_up()
        assert SECRET.encode() not in everything_told(relay)

    def test_a_hashed_key_still_distinguishes_rows(self, database: Database, new_relay: NewRelay) -> None:
        database.execute("CREATE TABLE cards (card text PRIMARY KEY, n int)")
        columns = {"hash": [r"public\.cards\.card"], "hash_key": KEY}
        relay = new_relay(records={"columns": columns}).start().wait_streaming()
        database.execute("INSERT INTO cards VALUES ('a', 1)")
        database.execute("UPDATE cards SET n = 2")
        database.execute("UPDATE cards SET card = 'b'")
        relay.caught_up()
        old, new = {"card": digest("a")}, {"card": digest("b")}
        assert changes(relay.records("cards")) == [
            created(old, old | {"n": 1}),
            updated(old, old | {"n": 2}),
            *deleted(old, old),
            created(new, new | {"n": 2}),
        ]
        assert relay.records("cards")[-1].headers == (
            ("__debezium.oldkey", json.dumps(old, separators=(",", ":")).encode()),
        )

    @pytest.mark.parametrize("treatment", ["drop", "mask"])
    @pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
    def test_dropping_or_masking_a_key_column_is_refused(
        self, database: Database, new_relay: NewRelay, treatment: str, identity: str
    ) -> None:
        database.execute("CREATE TABLE cards (card text PRIMARY KEY)")
        database.execute(f"ALTER TABLE cards REPLICA IDENTITY {identity}")
        relay = new_relay(records={"columns": {treatment: [r".*\.card"]}}).start()
        relay.wait_streaming()
        database.execute(f"INSERT INTO cards VALUES ('{SECRET}')")
        assert relay.wait_exit() == 2
        assert f"records.columns.{treatment}: public.cards.card" in relay.log[-1]["event"]
        assert SECRET not in relay.log_text

    def test_hashing_without_a_key_is_refused(self, new_relay: NewRelay) -> None:
        relay = new_relay(records={"columns": {"hash": [r".*\.card"]}}).start()
        assert relay.wait_exit() == 2
        assert "hash_key" in relay.log_text


def change_every_way(database: Database, table: str) -> None:
    """Nine records; the secret is first TOASTed, then short, then gone, then in a row whose key changes."""
    database.execute(f"INSERT INTO {table} VALUES (1, repeat('{SECRET} ', 1000), 'a')")
    database.execute(f"UPDATE {table} SET note = 'b'")
    database.execute(f"UPDATE {table} SET card = '{SECRET}'")
    database.execute(f"UPDATE {table} SET id = 2")
    database.execute(f"ALTER TABLE {table} ALTER card SET DEFAULT '{SECRET}'")
    database.execute(f"DELETE FROM {table}")
    database.execute(f"INSERT INTO {table} (id) VALUES (3)")


def new_slot(database: Database) -> str:
    """Create a slot in advance, since none can be created while a transaction that locks a table is open."""
    slot = f"{database.name}_slot"
    database.execute(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
    database.execute("CREATE PUBLICATION pgrelay FOR ALL TABLES")
    return slot


class TestRoutes:
    def test_partitions_of_a_table_may_share_a_topic(self, database: Database, new_relay: NewRelay) -> None:
        database.execute("CREATE TABLE orders (id int PRIMARY KEY, n int) PARTITION BY RANGE (id)")
        for number in (0, 1):
            bounds = f"FROM ({number * 100}) TO ({number * 100 + 100})"
            database.execute(f"CREATE TABLE orders_{number} PARTITION OF orders FOR VALUES {bounds}")
        route = {"match": r"public\.orders_\d+", "topic": "{prefix}.{schema}.orders"}
        relay = new_relay(records={"routes": [route]}).start().wait_streaming()
        database.execute("INSERT INTO orders VALUES (1, 1), (101, 1)")
        database.execute("UPDATE orders SET id = 102 WHERE id = 1")
        relay.caught_up()
        records = relay.records("orders")
        assert changes(records) == [
            created({"id": 1}, {"id": 1, "n": 1}),
            created({"id": 101}, {"id": 101, "n": 1}),
            *deleted({"id": 1}, {"id": 1}),
            created({"id": 102}, {"id": 102, "n": 1}),
        ]
        tables = [record.json["source"]["table"] for record in records if record.json]
        assert tables == ["orders_0", "orders_1", "orders_0", "orders_1"]
        schemas = relay.read(f"{relay.prefix}.schema")
        assert {record.json_key["topic"] for record in schemas} == {relay.topic("orders")}

    def test_shards_in_schemas_may_share_a_topic(self, database: Database, new_relay: NewRelay) -> None:
        route = {"match": r"shard_\d+\.(users|teams)", "topic": "{prefix}.all.{table}"}
        relay = new_relay(records={"routes": [route]}).start().wait_streaming()
        for schema in ("shard_1", "shard_2", "main"):
            database.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.users (id int PRIMARY KEY)")
            database.execute(f"INSERT INTO {schema}.users VALUES (1)")
        relay.caught_up()
        shards = relay.records("users", schema="all")
        assert [record.json["source"]["schema"] for record in shards] == ["shard_1", "shard_2"]
        assert len(relay.records("users", schema="main")) == 1

    @pytest.mark.parametrize("excluded", [False, True])
    def test_existing_tables_that_collide_are_refused_before_any_row(
        self, database: Database, new_relay: NewRelay, excluded: bool
    ) -> None:
        for schema, table in (("a_b", "c"), ("a", "b_c")):
            database.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.{table} (id int PRIMARY KEY)")
        tables = {"exclude": [r"a\.b_c"]} if excluded else {}
        relay = new_relay(records={"tables": tables}).start()
        if excluded:
            relay.wait_streaming()
            return
        assert relay.wait_exit() == 2
        assert relay.events("streaming") == []
        told = relay.log[-1]["event"]
        assert "table a_b.c" in told
        assert "table a.b_c" in told

    def test_a_locked_table_does_not_prevent_a_start(self, database: Database, new_relay: NewRelay) -> None:
        database.execute("CREATE TABLE orders (id int PRIMARY KEY)")
        relay = new_relay(source={"slot": new_slot(database)})
        with database.connect() as locking, locking.transaction():
            locking.execute("LOCK TABLE orders")
            relay.start().wait_streaming()

    def test_tables_with_topics_that_kafka_confuses_are_refused(
        self, database: Database, new_relay: NewRelay
    ) -> None:
        relay = new_relay().start().wait_streaming()
        for schema, table in (("a_b", "c"), ("a", "b_c")):
            database.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.{table} (id int PRIMARY KEY)")
            database.execute(f"INSERT INTO {schema}.{table} VALUES (1)")
        assert relay.wait_exit() == 2
        told = relay.log[-1]["event"]
        assert "table a_b.c" in told
        assert "table a.b_c" in told
        assert "records.routes" in told

    def test_tables_that_share_a_topic_by_the_template_are_refused(
        self, database: Database, new_relay: NewRelay
    ) -> None:
        relay = new_relay(records={"topic": "{prefix}.{table}"}).start().wait_streaming()
        for schema in ("one", "two"):
            database.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.users (id int PRIMARY KEY)")
            database.execute(f"INSERT INTO {schema}.users VALUES (1)")
        assert relay.wait_exit() == 2
        assert "table one.users" in relay.log[-1]["event"]
        assert "table two.users" in relay.log[-1]["event"]

    def test_tables_that_share_a_topic_at_the_start_leave_no_publication(
        self, database: Database, new_relay: NewRelay
    ) -> None:
        """Nor a slot: both would stay behind, unused."""
        for schema in ("one", "two"):
            database.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.users (id int PRIMARY KEY)")
        database.execute("CREATE TABLE keyless (n int)")
        relay = new_relay(source={"dsn": database.dsn}, records={"topic": "{prefix}.{table}"}).start()
        assert relay.wait_exit() == 2
        assert "table one.users" in relay.log[-1]["event"]
        # Nobody's UPDATE is refused by a publication that is rolled back.
        assert [entry["event"] for entry in relay.log if "UPDATE and DELETE" in entry["event"]] == []
        with database.connect() as connection:
            slots = "SELECT slot_name FROM pg_replication_slots WHERE slot_name = %s"
            left = connection.execute(f"SELECT pubname FROM pg_publication UNION ALL {slots}", [relay.prefix])
            assert left.fetchall() == []

    def test_a_route_resolves_a_collision(self, database: Database, new_relay: NewRelay) -> None:
        route = {"match": r"two\.users", "topic": "{prefix}.others"}
        relay = new_relay(records={"topic": "{prefix}.{table}", "routes": [route]}).start().wait_streaming()
        for schema in ("one", "two"):
            database.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.users (id int PRIMARY KEY)")
            database.execute(f"INSERT INTO {schema}.users VALUES (1)")
        relay.caught_up()
        assert len(relay.read(f"{relay.prefix}.users")) == len(relay.read(f"{relay.prefix}.others")) == 1
