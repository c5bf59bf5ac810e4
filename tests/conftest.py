"""What all tests share: patience with a machine that is seldom ours alone."""

import pytest
from hypothesis import settings

from pgrelay.embedded.daemon import ServerFailed
from tests.integration.waiting import OutOfPatience

settings.register_profile("pgrelay", deadline=None)
settings.load_profile("pgrelay")

# What was awaited did not come, a server did not start or stop, or a test met pytest's own time limit.
_LATE = (OutOfPatience, ServerFailed, r"^Failed: Timeout \(>")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give a test whose time ran out, as on a busy machine, a second try, and show why.

    Records that are wrong or that never came get none: they may be a loss.
    """
    for item in items:
        item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=_LATE))
