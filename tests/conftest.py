"""What all tests share: retries for tests that time out on a busy machine, and signals that are restored."""

import logging
import signal
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

from pgrelay.embedded.daemon import ServerFailed
from tests.integration.waiting import OutOfPatience

settings.register_profile("pgrelay", deadline=None)
settings.load_profile("pgrelay")

# A condition did not become true, a server did not start or stop, or a test reached pytest's time limit.
_LATE = (OutOfPatience, ServerFailed, r"^Failed: Timeout \(>")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Retry a test that timed out, as on a busy machine, once, and show why.

    Tests with wrong or missing records are not retried: records may be lost.
    """
    for item in items:
        item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=_LATE))


@pytest.fixture(autouse=True)
def restored_signals() -> Iterator[None]:
    """A run or a mirror ends with signals ignored. Servers that later tests start would inherit that."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """After the test, logging is as it was before."""
    root = logging.getLogger()
    installed, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    logging.captureWarnings(False)
    root.handlers[:] = installed
    root.setLevel(level)
