"""The seed of tests that choose at random: PGRELAY_TEST_SEED repeats what a run has printed."""

import os
import random

SEED = int(os.environ.get("PGRELAY_TEST_SEED", "0")) or random.randrange(1, 1 << 32)
