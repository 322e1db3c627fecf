"""The work of every engine, ours and the peers': 500 jobs that do nothing, and single jobs on an idle engine."""

import random

JOBS = 500
CONCURRENCY = 16
BATCH = 10
PATIENCE_S = 60.0
KIND = "nothing"


def idle_s() -> float:
    """Return how long an engine rests before the next sample. It is random, so that samples do not align with polling."""
    return random.uniform(0.02, 0.27)
