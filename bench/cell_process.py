"""`python -m bench.cell_process URL FOLDER`: a process that runs turns on one database. Each line of input asks for a round, and
the answer is what it cost this process."""

import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from bench.agent_loop import Ours as Loop
from bench.costs import Meter
from bench.harness import Workshop


def main() -> None:
    url, folder = sys.argv[1:]
    meter = Meter()
    with ExitStack() as cleanup:
        loop = Loop(Workshop(Path(folder), cleanup), "cell", url)
        print("{}", flush=True)
        for line in sys.stdin:
            meter.seen.clear()
            start = time.process_time()
            loop.round(*json.loads(line))
            cpu_s = time.process_time() - start
            print(
                json.dumps({"cpu_s": cpu_s, "statements": meter.seen["statements"], "commits": meter.seen["commits"]}), flush=True
            )


if __name__ == "__main__":
    main()
