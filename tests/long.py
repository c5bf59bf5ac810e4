"""Tests of Spark beside everything else, which want both cores for minutes: PGRELAY_TEST_LONG=1 make test."""

import os

import pytest

long = pytest.mark.skipif(
    not os.environ.get("PGRELAY_TEST_LONG"), reason="takes both cores for minutes: PGRELAY_TEST_LONG=1"
)
