"""librdkafka's options pass through, except those that would break a promise."""

import pytest

from pgrelay.config.kafka_options import refused_options


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("bootstrap.servers", "a:1"),
        ("compression.type", "zstd"),
        ("linger.ms", "50"),
        ("acks", "all"),
        ("acks", "-1"),
        ("request.required.acks", "ALL"),
        ("enable.idempotence", "true"),
        ("partitioner", "murmur2_random"),
        ("message.timeout.ms", "0"),
        ("delivery.timeout.ms", "0"),
        ("max.in.flight", "1"),
        ("max.in.flight.requests.per.connection", "5"),
        ("retries", "2147483647"),
        ("queuing.strategy", "fifo"),
        ("delivery.report.only.error", "false"),
        ("enable.gapless.guarantee", "false"),
        ("allow.auto.create.topics", "false"),
        ("message.max.bytes", "2000000"),
        ("linger.ms", "0.5"),
        ("queue.buffering.max.ms", "100"),
        ("topic.metadata.refresh.interval.ms", "-1"),
        ("socket.send.buffer.bytes", "0"),
        ("client.id", "5s"),
        ("no.such.option", "librdkafka says so itself"),
    ],
)
def test_an_option_that_keeps_the_promises_is_accepted(option: str, value: str) -> None:
    assert list(refused_options({option: value})) == []


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("acks", "1", "a change is confirmed to Postgres only when every in-sync replica has it"),
        (
            "request.required.acks",
            "0",
            "a change is confirmed to Postgres only when every in-sync replica has it",
        ),
        ("enable.idempotence", "false", "without idempotence a retry can reorder or duplicate records"),
        (
            "enable.gapless.guarantee",
            "true",
            "pgrelay sets it itself, but not for exactly_once, which undoes what fails",
        ),
        (
            "partitioner",
            "consistent_random",
            "pgrelay partitions records as Java clients do, so that topics co-partition with theirs",
        ),
        (
            "message.timeout.ms",
            "300000",
            "pgrelay waits for the broker as long as it takes; giving up would lose the record",
        ),
        (
            "delivery.timeout.ms",
            "1",
            "pgrelay waits for the broker as long as it takes; giving up would lose the record",
        ),
        ("retries", "0", "pgrelay retries as long as it takes; giving up would lose the record"),
        (
            "message.send.max.retries",
            "9",
            "pgrelay retries as long as it takes; giving up would lose the record",
        ),
        ("max.in.flight", "6", "with more than 5 requests in flight the broker can't keep the order"),
        ("queuing.strategy", "lifo", "records must be sent in commit order"),
        (
            "delivery.report.only.error",
            "true",
            "pgrelay needs the report of every delivered record to know its progress",
        ),
        (
            "allow.auto.create.topics",
            "true",
            "a deleted topic would silently be re-created with the broker's settings",
        ),
        ("transactional.id", "me", "pgrelay sets it itself, so that a second relay is fenced"),
    ],
)
def test_an_option_that_would_break_a_promise_is_refused(option: str, value: str, why: str) -> None:
    assert list(refused_options({option: value})) == [(option, f"can't be {value!r}: {why}; leave it out")]


@pytest.mark.parametrize("option", ["dr_cb", "error_cb", "stats_cb", "on_delivery", "logger", "opaque"])
def test_an_option_that_takes_a_function_is_refused(option: str) -> None:
    assert list(refused_options({option: "x"})) == [
        (option, "takes a Python function, which a configuration file can't give; leave it out")
    ]


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("batch.size", "a whole number"),
        ("message.max.bytes", "a whole number"),
        ("queue.buffering.max.kbytes", "a whole number"),
        ("queue.buffering.max.messages", "a whole number"),
        ("socket.receive.buffer.bytes", "a whole number"),
        ("transaction.timeout.ms", "a whole number of milliseconds"),
        ("reconnect.backoff.max.ms", "a whole number of milliseconds"),
        ("linger.ms", "a number of milliseconds"),
        ("queue.buffering.max.ms", "a number of milliseconds"),
    ],
)
@pytest.mark.parametrize(
    "value", ["90000ms", "5s", "1 000", "1MB", "0x15F90", "", "9e4", "+5", "\uff19\uff10"]
)
def test_a_number_that_librdkafka_would_read_partly_is_refused(
    option: str, expected: str, value: str
) -> None:
    assert list(refused_options({option: value})) == [(option, f"got {value!r}; write {expected}")]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("batch.size", "-1"),
        ("transaction.timeout.ms", "1.5"),
        ("socket.timeout.ms", "010"),
        ("linger.ms", ".5"),
        ("linger.ms", "-1"),
    ],
)
def test_a_number_that_librdkafka_reads_differently_is_refused(option: str, value: str) -> None:
    [(name, why)] = refused_options({option: value})
    assert name == option
    assert why.startswith(f"got {value!r}; write ")
