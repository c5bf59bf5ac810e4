"""Tests that need both cores for minutes: PGRELAY_TEST_LONG=1."""

import os

import pytest

long = pytest.mark.skipif(
    not os.environ.get("PGRELAY_TEST_LONG"), reason="takes both cores for minutes: PGRELAY_TEST_LONG=1"
)
