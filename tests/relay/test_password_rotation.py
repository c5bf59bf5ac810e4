"""Which refusals of a password are waited out, and for how long."""

import pytest

from pgrelay.errors import PasswordRefused, SetupError, SourceUnavailable
from pgrelay.relay.password_rotation import PasswordRotation
from tests.clock import Clock

REFUSED = PasswordRefused("password authentication failed; give the password")


@pytest.fixture
def rotation(clock: Clock) -> PasswordRotation:
    rotation = PasswordRotation()
    rotation.accepted()
    return rotation


def test_a_password_that_was_right_is_tried_again_for_two_minutes(
    rotation: PasswordRotation, clock: Clock
) -> None:
    for _ in range(2):
        for _ in range(119):
            passing = rotation.classify(REFUSED)
            assert isinstance(passing, SourceUnavailable)
            assert str(passing) == str(REFUSED)
            clock.now += 1
        rotation.accepted()
    rotation.classify(REFUSED)
    clock.now += 120
    assert rotation.classify(REFUSED) is REFUSED


def test_a_password_that_was_never_right_is_wrong(clock: Clock) -> None:
    assert PasswordRotation().classify(REFUSED) is REFUSED


def test_other_errors_stay_what_they_are(rotation: PasswordRotation) -> None:
    error = SetupError("database nowhere does not exist")
    assert rotation.classify(error) is error
