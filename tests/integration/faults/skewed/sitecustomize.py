"""Python runs this first if its folder is in PYTHONPATH: it shifts the clock by PGRELAY_TEST_SKEW_S."""

import os
import time

_SKEW_NS = int(os.environ["PGRELAY_TEST_SKEW_S"]) * 1_000_000_000
_now_ns = time.time_ns

time.time_ns = lambda: _now_ns() + _SKEW_NS
time.time = lambda: time.time_ns() / 1e9
