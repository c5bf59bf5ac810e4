"""Topics that acknowledge no record now, or that would lose some with a broker."""

from dataclasses import replace

from pgrelay.check.topic_replicas import leaderless, out_of_sync, single_acknowledgement, single_replica
from pgrelay.kafka.cluster import Overview, Topic, TopicConfig
from tests.check.kafka_topics import BROKER, ONE, THREE, sink


def test_topics_with_too_few_replicas_in_sync_are_an_error() -> None:
    two = TopicConfig(1_048_588, 2, "delete", -1)
    there = Overview(THREE, {"orders": ONE, "log": ONE})
    (finding,) = out_of_sync({"orders": two, "log": BROKER}, there, sink())
    assert finding.level == "error"
    assert finding.what.endswith(": orders")
    assert out_of_sync({"new": two}, there, sink(replication_factor=2)) == []
    assert len(out_of_sync({"new": two}, there, sink())) == 1


def test_future_topics_get_no_replicas_on_absent_brokers() -> None:
    """When asked whether it would create the topic, the cluster counts those brokers too."""
    two = TopicConfig(1_048_588, 2, "delete", -1)
    alone = Overview({1: "b:9092"}, {})
    (finding,) = out_of_sync({"new": two}, alone, sink(replication_factor=3))
    assert finding.what.endswith(": new")


def test_topics_without_a_leader_are_an_error() -> None:
    """The last in-sync replica stays listed, whether its broker is there or not."""
    two = TopicConfig(1_048_588, 2, "delete", -1)
    there = {"orders": replace(ONE, led=False), "log": ONE}
    (finding,) = leaderless(["orders", "log", "new"], there)
    assert (finding.level, finding.what) == ("error", "1 topic with a partition that no broker leads: orders")
    assert out_of_sync({"orders": two}, Overview(THREE, there), sink()) == []
    assert leaderless(["log"], there) == []


def test_topics_that_one_of_several_replicas_may_acknowledge_are_a_warning() -> None:
    two = TopicConfig(1_048_588, 2, "delete", -1)
    there = Overview(THREE, {"orders": Topic(1, 3, 3), "log": ONE, "message": Topic(1, 2, 1)})
    (finding,) = single_acknowledgement({"orders": two, "log": BROKER, "message": BROKER}, there, sink())
    assert finding.level == "warning"
    assert finding.what.endswith(": message")
    assert "--topic message --add-config min.insync.replicas=2" in finding.cure
    assert (
        single_acknowledgement(
            {"new": two, "old": BROKER}, Overview(THREE, {"old": ONE}), sink(replication_factor=3)
        )
        == []
    )
    assert len(single_acknowledgement({"new": BROKER}, Overview(THREE, {}), sink(replication_factor=3))) == 1


def test_topics_with_one_replica_where_more_are_possible_are_a_warning() -> None:
    overview = Overview(THREE, {"orders": ONE, "log": Topic(1, 3, 3)})
    (finding,) = single_replica({"orders": BROKER, "log": BROKER, "new": BROKER}, overview, sink())
    assert (finding.level, finding.what) == ("warning", "2 topics with one replica on 3 brokers: orders, new")
    assert finding.cure.startswith("sink.replication_factor: 3 ")
    (existing,) = single_replica({"orders": BROKER, "new": BROKER}, overview, sink(replication_factor=3))
    assert existing.what == "1 topic with one replica on 3 brokers: orders"
    assert single_replica({"new": BROKER}, Overview({1: "b:9092"}, {}), sink()) == []
