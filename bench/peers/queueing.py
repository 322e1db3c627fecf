"""What every engine is asked to do, ours and those of the peers: 500 jobs that do nothing; single jobs on an idle engine."""

import random

JOBS = 500
CONCURRENCY = 16
BATCH = 10
PATIENCE_S = 60.0
KIND = "nothing"


def idle_s() -> float:
    """For how long an engine is left alone before the next sample: in no step with anybody's polling."""
    return random.uniform(0.02, 0.27)
