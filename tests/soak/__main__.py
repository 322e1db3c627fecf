"""Run the soak, and print what was done, what was broken and what was wrong."""

import argparse
import random
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.soak.soak import Report, run_soak
from tests.soak.world import open_place


def print_report(report: Report) -> None:
    for title, counts in (("requests", report.did), ("faults", report.happened), ("rows", report.counts)):
        print(f"{title}: " + ", ".join(f"{name}: {n:,}" for name, n in sorted(counts.items())))
    for violation in report.violations:
        print(f"VIOLATION {violation}")
    print(f"{len(report.violations)} violations. The seed was {report.seed}.")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--keep", type=Path, help="keep the home, the logs and the SQLite file in this folder")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hw-soak-")))
        folder.mkdir(parents=True, exist_ok=True)
        place = stack.enter_context(open_place(options.database, folder))
        report = run_soak(folder, place, options.seconds, options.seed)
    print_report(report)
    sys.exit(bool(report.violations))


if __name__ == "__main__":
    main()
