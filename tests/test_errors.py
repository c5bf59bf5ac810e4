"""The verdict on each error: retry or stop, and the exit code of a stop."""

import asyncio
import inspect

import pytest

from pgrelay import errors
from pgrelay.errors import (
    GapError,
    Interrupted,
    KafkaUnavailable,
    PasswordRefused,
    PgrelayError,
    PositionError,
    ProtocolError,
    RecordError,
    RecordRefused,
    RegistryUnavailable,
    SetupError,
    SourceUnavailable,
    SpoolDamaged,
    SpoolError,
    StandbyNotReady,
    StreamingFailed,
    TransientError,
    Verdict,
    exit_code,
    verdict,
)

STOPS: dict[type[PgrelayError], int] = {
    SetupError: 2,
    PasswordRefused: 2,
    PositionError: 2,
    GapError: 3,
    RecordError: 4,
    RecordRefused: 4,
    ProtocolError: 1,
    Interrupted: 130,
    PgrelayError: 1,
}
PASSES: list[type[PgrelayError]] = [
    *(TransientError, SourceUnavailable, StandbyNotReady, KafkaUnavailable, RegistryUnavailable, SpoolError),
    *(SpoolDamaged, StreamingFailed),
]
EVERY_CLASS = [*STOPS, *PASSES]


def test_every_error_class_is_tested() -> None:
    written = {
        found
        for _, found in inspect.getmembers(errors, inspect.isclass)
        if issubclass(found, BaseException) and found.__module__ == errors.__name__
    }
    assert written == set(EVERY_CLASS)


@pytest.mark.parametrize(("error", "code"), STOPS.items())
def test_permanent_errors_stop_the_process_with_their_exit_code(error: type[PgrelayError], code: int) -> None:
    assert verdict(error("it is wrong")) is Verdict.STOP
    assert exit_code(error("it is wrong")) == code


@pytest.mark.parametrize("error", PASSES)
def test_transient_errors_are_retried(error: type[PgrelayError]) -> None:
    assert verdict(error("it is down")) is Verdict.RETRY


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left"), ConnectionResetError(), TimeoutError(), KeyError("x"), MemoryError()],
)
def test_an_unclassified_error_stops_with_1(error: Exception) -> None:
    """Even one that sounds temporary: code that knows it is raises a TransientError."""
    assert verdict(error) is Verdict.STOP
    assert exit_code(error) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), asyncio.CancelledError(), SystemExit(0)])
def test_a_request_to_stop_is_not_retried(error: BaseException) -> None:
    assert verdict(error) is Verdict.STOP


def test_what_refused_a_record_is_not_known_unless_told() -> None:
    refused = RecordRefused("too large")
    assert (refused.by_broker, refused.keyless) == (False, False)


def test_an_lsn_takes_nothing_from_what_is_known_of_a_refusal() -> None:
    refused = RecordRefused("too large", "app.t", commit_lsn=7)
    refused.by_broker = refused.keyless = True
    located = refused.with_lsn(0x100)
    known = (located.topic, located.commit_lsn, located.lsn, located.by_broker, located.keyless)
    assert known == ("app.t", 7, 0x100, True, True)


def test_a_subclass_inherits_the_verdict_and_exit_code() -> None:
    class SlotGone(GapError): ...

    class BrokerDown(KafkaUnavailable): ...

    assert (verdict(SlotGone()), exit_code(SlotGone())) == (Verdict.STOP, 3)
    assert verdict(BrokerDown()) is Verdict.RETRY


@pytest.mark.parametrize("error", EVERY_CLASS)
def test_an_lsn_can_be_added_to_any_error(error: type[PgrelayError]) -> None:
    located = error("Insert is truncated").with_lsn(0x16_B374D848)
    assert type(located) is error
    assert str(located) == "Insert is truncated (LSN 16/B374D848)"
