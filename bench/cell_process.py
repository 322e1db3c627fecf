"""`python -m bench.cell_process URL FOLDER`: a process that runs turns on one database. Each line of input asks for a round, and
the answer is what it cost this process."""

import json
import sys
import time
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from bench.agent_loop import Ours as Loop
from bench.harness import Workshop
from headway.storage.postgres.wire import Wire


def main() -> None:
    url, folder = sys.argv[1:]
    statements = count()

    def note(statement: str) -> None:
        if statement:
            next(statements)

    Wire.trace = note
    with ExitStack() as cleanup:
        loop = Loop(Workshop(Path(folder), cleanup), "cell", url)
        print("{}", flush=True)
        for line in sys.stdin:
            before, start = next(statements), time.process_time()
            loop.round(*json.loads(line))
            cpu_s = time.process_time() - start
            print(json.dumps({"cpu_s": cpu_s, "statements": next(statements) - before - 1}), flush=True)


if __name__ == "__main__":
    main()
