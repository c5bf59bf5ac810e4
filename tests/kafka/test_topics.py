"""How topics are created: as configured, except those that are read from their beginning."""

from concurrent.futures import Future
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pgrelay.config import SinkConfig
from pgrelay.kafka.topics import TopicKind, create, keeps_history, new_topic, without_segment_options

CONFIG = SinkConfig(
    kafka={"bootstrap.servers": "b"}, partitions=6, replication_factor=3, topic_config={"retention.ms": "1"}
)


def test_a_topic_of_rows_is_created_as_configured() -> None:
    made = new_topic("t", "rows", CONFIG)
    assert (made.num_partitions, made.replication_factor, made.config) == (6, 3, {"retention.ms": "1"})
    assert not keeps_history("rows")


@pytest.mark.parametrize("of", ["transactions", "messages"])
def test_a_topic_whose_records_share_keys_is_not_compacted(of: TopicKind) -> None:
    compacted = {"cleanup.policy": "compact", "retention.ms": "1"}
    made = new_topic("t", of, CONFIG.model_copy(update={"topic_config": compacted}))
    assert (made.num_partitions, made.replication_factor) == (6, 3)
    assert made.config == {"cleanup.policy": "delete", "retention.ms": "1"}
    assert not keeps_history(of)


@pytest.mark.parametrize("of", ["schemas", "dead letters"])
def test_schemas_and_dead_letters_are_kept_for_ever_in_one_partition(of: TopicKind) -> None:
    made = new_topic("t", of, CONFIG)
    assert (made.num_partitions, made.replication_factor) == (1, 3)
    assert made.config == {"cleanup.policy": "delete", "retention.ms": "-1"}
    assert keeps_history(of)


def test_the_offsets_topic_is_compacted() -> None:
    made = new_topic("t", "offsets", CONFIG)
    assert made.num_partitions == 1
    assert made.config is not None
    assert made.config["cleanup.policy"] == "compact"
    assert keeps_history("offsets")


@pytest.mark.parametrize("code", [KafkaError.POLICY_VIOLATION, KafkaError.INVALID_CONFIG])
def test_a_cluster_that_refuses_small_segments_is_asked_without(code: int) -> None:
    """Confluent Cloud takes none below 50 MB."""
    new = new_topic("t", "offsets", CONFIG)
    plain = without_segment_options(new, KafkaError(code))
    assert plain is not None
    assert (plain.topic, plain.num_partitions, plain.replication_factor) == ("t", 1, 3)
    assert plain.config == {"cleanup.policy": "compact"}
    assert without_segment_options(plain, KafkaError(code)) is None


def test_no_other_refusal_and_no_other_topic_leads_to_a_plainer_one() -> None:
    offsets, rows = new_topic("t", "offsets", CONFIG), new_topic("t", "rows", CONFIG)
    assert without_segment_options(offsets, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)) is None
    assert without_segment_options(rows, KafkaError(KafkaError.POLICY_VIOLATION)) is None


@pytest.mark.parametrize("of", ["schemas", "dead letters", "offsets"])
def test_safety_options_apply_to_our_own_topics_too(of: TopicKind) -> None:
    safe = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
    config = CONFIG.model_copy(update={"topic_config": {**safe, "retention.ms": "1"}})
    plain, made = new_topic("t", of, CONFIG).config, new_topic("t", of, config).config
    assert plain is not None
    assert made == {**plain, **safe}


class Refusing:
    """An admin client whose cluster refuses each topic with the next of these codes, or 0 for none."""

    def __init__(self, **codes: list[int]) -> None:
        self.asked: list[tuple[list[str], bool]] = []
        self._codes = codes

    def create_topics(
        self, topics: list[NewTopic], *, validate_only: bool, **timeouts_s: float
    ) -> dict[str, "Future[None]"]:
        assert timeouts_s == {"operation_timeout": 8.0, "request_timeout": 8.0}
        self.asked.append(([new.topic for new in topics], validate_only))
        return {new.topic: self._answer(self._codes[new.topic].pop(0)) for new in topics}

    def _answer(self, code: int) -> "Future[None]":
        answer: Future[None] = Future()
        if code:
            answer.set_exception(KafkaException(KafkaError(code)))
        else:
            answer.set_result(None)
        return answer


@pytest.mark.parametrize("validate_only", [True, False])
async def test_only_what_a_plainer_topic_may_cure_is_tried_again(validate_only: bool) -> None:
    denied, policy = KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.POLICY_VIOLATION
    admin = Refusing(offsets=[policy, 0], rows=[policy], schemas=[denied], others=[0], more=[policy, denied])
    topics = [
        new_topic("offsets", "offsets", CONFIG),
        new_topic("rows", "rows", CONFIG),
        new_topic("schemas", "schemas", CONFIG),
        new_topic("others", "rows", CONFIG),
        new_topic("more", "offsets", CONFIG),
    ]
    refusals = await create(cast(AdminClient, admin), topics, 8.0, validate_only=validate_only)
    assert {name: refusal.code() for name, refusal in refusals.items()} == {
        "rows": policy,
        "schemas": denied,
        "more": denied,
    }
    assert admin.asked == [
        ([new.topic for new in topics], validate_only),
        (["offsets", "more"], validate_only),
    ]
