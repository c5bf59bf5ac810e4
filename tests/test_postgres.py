"""What an error of the server means to us, by its SQLSTATE."""

import pytest

from pgrelay.errors import GapError, PgrelayError, SetupError, SourceUnavailable
from pgrelay.postgres import server_error


@pytest.mark.parametrize(
    ("sqlstate", "meaning"),
    [
        ("57P01", SourceUnavailable),  # admin_shutdown
        ("55006", SourceUnavailable),  # object_in_use: the slot, by another relay
        ("XX000", SourceUnavailable),  # internal_error
        (None, SourceUnavailable),
        ("58P01", GapError),  # undefined_file: the WAL is removed
        ("55000", GapError),  # object_not_in_prerequisite_state: the slot is invalidated
        ("42704", SetupError),  # undefined_object: no such slot, no such publication
        ("42501", SetupError),  # insufficient_privilege
    ],
)
def test_an_error_means_wait_or_stop(sqlstate: str | None, meaning: type[PgrelayError]) -> None:
    error = server_error(sqlstate, "it says so")
    assert type(error) is meaning
    assert str(error).startswith("it says so")


@pytest.mark.parametrize(
    "text",
    [
        'could not map filenode "base/16384/16392" to relation OID',
        'could not map filenumber "base/16384/16393" to relation OID',
    ],
)
def test_the_cure_of_a_bug_in_streaming_is_told(text: str) -> None:
    error = server_error("XX000", text)
    assert type(error) is SourceUnavailable
    assert "source.streaming: off" in str(error)
