"""The last errors, each listed once, with their cures."""

import psycopg
import pytest

from pgrelay.errors import (
    KafkaUnavailable,
    ProtocolError,
    RegistryUnavailable,
    SourceUnavailable,
    SpoolError,
)
from pgrelay.postgres.errors import query_error
from pgrelay.status.troubles import MAX_KEPT, Trouble, Troubles
from tests.status.relays import NOW_S, Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def troubles(clock: Clock) -> Troubles:
    return Troubles(clock)


def test_there_are_no_troubles_at_first(troubles: Troubles) -> None:
    assert troubles.latest() == []


def test_a_repeated_trouble_is_counted(troubles: Troubles, clock: Clock) -> None:
    troubles.record("the disk is full", "free space")
    clock.now_s += 5
    troubles.record("Kafka is away", "wait")
    clock.now_s += 5
    troubles.record("the disk is full", "free space")
    assert troubles.latest() == [
        Trouble("the disk is full", "free space", NOW_S, NOW_S + 10, 2),
        Trouble("Kafka is away", "wait", NOW_S + 5, NOW_S + 5, 1),
    ]


def test_the_oldest_troubles_are_forgotten(troubles: Troubles) -> None:
    for number in range(MAX_KEPT + 1):
        troubles.record(f"trouble {number}", "none")
    assert len(troubles.latest()) == MAX_KEPT
    assert troubles.latest()[-1].what == "trouble 1"


def test_a_message_is_split_into_trouble_and_cure(troubles: Troubles) -> None:
    troubles.record_error(KafkaUnavailable("Kafka can't be reached: it says; nothing; start the brokers"))
    assert (troubles.latest()[0].what, troubles.latest()[0].cure) == (
        "Kafka can't be reached: it says; nothing",
        "start the brokers",
    )


def test_libpqs_own_text_is_not_taken_for_a_cure(troubles: Troubles) -> None:
    said = "server closed the connection unexpectedly\n\tThis probably means the server terminated\n"
    troubles.record_error(query_error(psycopg.OperationalError(said)))
    assert troubles.latest()[0].what.endswith("unexpectedly, This probably means the server terminated")
    assert "check that Postgres runs" in troubles.latest()[0].cure


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (SourceUnavailable("no"), "Postgres"),
        (KafkaUnavailable("no"), "brokers"),
        (SpoolError("no"), "spool_dir is writable"),
        (RegistryUnavailable("no"), "schema registry"),
        (ProtocolError("no"), "log"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_message_without_a_cure_gets_its_error_classs_cure(
    troubles: Troubles, error: Exception, word: str
) -> None:
    troubles.record_error(error)
    assert word in troubles.latest()[0].cure
