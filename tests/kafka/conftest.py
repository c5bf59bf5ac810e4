import sys
from collections.abc import Callable
from typing import Any

import pytest

from pgrelay.kafka.reports import take_reports


@pytest.fixture(autouse=True)
def nothing_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test whose sink takes in reports while it handles an error: see pgrelay/kafka/reports.py."""

    def take(call: Callable[[float], Any], timeout_s: float) -> Any:
        assert sys.exception() is None
        return take_reports(call, timeout_s)

    monkeypatch.setattr("pgrelay.kafka.sink.take_reports", take)
