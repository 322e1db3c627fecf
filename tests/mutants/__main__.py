"""`make mutants`: counts which small faults in the code the tests notice.

A sample of faults is drawn with a fixed seed and kept in sample.json. All of them are written into one copy of the tree, where a
number switches one on. One run of the suite records which tests reach which fault; then each fault is switched on, and its tests
run until one fails.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

from tests.mutants import sites

ROOT = Path(__file__).parents[2]
TREES = ROOT / ".cache" / "mutants"
SECONDS_PER_MUTANT = 40.0  # of tests, by the times that were recorded
PYTEST = ("-p", "tests.mutants.plugin", "-q", "-m", "not torture", "-p", "no:cacheprovider")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("step", choices=["draw", "record", "run", "table"])
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout whose code and tests are tried")
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    folder = TREES / options.tree.resolve().name
    {"draw": draw, "record": record, "run": run, "table": show}[options.step](options.tree.resolve(), folder, options.workers)


def draw(tree: Path, folder: Path, workers: int) -> None:
    sites.save(sites.draw(tree))
    print(f"{len(sites.load())} mutants are in {sites.SAMPLE}.")


def record(tree: Path, folder: Path, workers: int) -> None:
    copy = build(tree, folder / "record")
    for name in ("current", "hits", "times"):
        (copy / ".mutants" / name).mkdir(parents=True)
    subprocess.run([*python(copy), *PYTEST, "-n", str(workers)], cwd=copy)
    hits: dict[int, set[int]] = defaultdict(set)
    for path in (copy / ".mutants/hits").iterdir():
        for line in path.read_text().splitlines():
            mutant, test = map(int, line.split())
            hits[test].add(mutant)
    seconds = dict(line.split()[:2] for path in (copy / ".mutants/times").iterdir() for line in path.read_text().splitlines())
    names = json.loads((copy / ".mutants/tests.json").read_text(encoding="utf-8"))
    failed = set((copy / ".mutants/failed").read_text().splitlines()) if (copy / ".mutants/failed").exists() else set()
    rows = [[names[test - 1], float(seconds.get(str(test), 0)), sorted(found)] for test, found in hits.items() if test]
    rows = [row for row in rows if row[0] not in failed]
    (folder / "reached.json").write_text(json.dumps(rows), encoding="utf-8")
    print(f"{len({mutant for row in rows for mutant in row[2]})} mutants are reached by {len(rows)} tests.")


def run(tree: Path, folder: Path, workers: int) -> None:
    rows = json.loads((folder / "reached.json").read_text(encoding="utf-8"))
    tests: dict[int, list[tuple[float, float, str]]] = defaultdict(list)
    for name, seconds, reached in rows:
        for mutant in reached:
            tests[mutant].append((seconds * len(reached), seconds, name))
    plans: list[list[list[object]]] = [[] for _ in range(workers)]
    for mutant, known in sorted(tests.items()):
        chosen, total = [], 0.0
        for _, seconds, name in sorted(known):  # cheap tests that reach little else come first
            if total < SECONDS_PER_MUTANT:
                chosen.append(name)
                total += seconds
        plans[mutant % workers].append([mutant, chosen, 60 + 4 * total])
    running = []
    for number, plan in enumerate(plans):
        copy = build(tree, folder / f"run{number}")
        path = folder / f"plan{number}.json"
        path.write_text(json.dumps(plan), encoding="utf-8")
        with (folder / f"log{number}").open("w") as log:
            running.append(subprocess.Popen([*python(copy), *PYTEST, "--run-mutants", str(path)], cwd=copy, stdout=log, stderr=log))
    sys.exit(max(process.wait() for process in running))


def show(tree: Path, folder: Path, workers: int) -> None:
    mutants = sites.load()
    found = {}
    for path in folder.glob("plan*.done"):
        found.update({row["mutant"]: row for row in map(json.loads, path.read_text().splitlines())})
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for number, mutant in enumerate(mutants):
        row = found.get(number)
        state = "not reached" if row is None else "noticed" if row["failed"] else "survived"
        counts[mutant.part][state] += 1
        if state != "noticed":
            print(f"{number:4} {state:12} {mutant.file}:{mutant.function}: {mutant.before!r} -> {mutant.after!r}")
    print(f"\n{'part':<12} {'mutants':>8} {'noticed':>8} {'survived':>9} {'not reached':>12}")
    for part, count in counts.items():
        print(f"{part:<12} {count.total():>8} {count['noticed']:>8} {count['survived']:>9} {count['not reached']:>12}")
    total = sum(counts.values(), Counter())
    print(f"{'all':<12} {total.total():>8} {total['noticed']:>8} {total['survived']:>9} {total['not reached']:>12}")


def build(tree: Path, copy: Path) -> Path:
    """Copy the tracked files of a checkout, put all mutants into the copy, and give it an environment of its own."""
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=tree, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (tree / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / name, copy / name)
    shutil.copytree(Path(__file__).parent, copy / "tests/mutants", dirs_exist_ok=True)
    shutil.copy(ROOT / "tests/costs.py", copy / "tests")
    for command in (["git", "init", "-q"], ["git", "add", "-A"]):
        subprocess.run(command, cwd=copy, check=True)
    subprocess.run(["git", "-c", "user.name=m", "-c", "user.email=m@example.com", "commit", "-qm", "copy"], cwd=copy, check=True)
    gone = list(sites.instrument(copy, sites.load()))
    if gone:
        print(f"{len(gone)} mutants have no place in this code any more: {gone}")
    package = copy / "src/headway"
    shutil.copy(Path(__file__).with_name("runtime.py"), package / "_mutants.py")
    init = package / "__init__.py"
    text = init.read_text(encoding="utf-8")
    first = text.index("\n\n")
    init.write_text(text[:first] + "\n\nimport headway._mutants\n" + text[first:], encoding="utf-8")
    (copy / ".mutants").mkdir()
    link_environment(copy)
    return copy


def link_environment(copy: Path) -> None:
    """Make an environment like the present one, in which `headway` is the code of the copy."""
    venv = Path(sys.prefix)
    subprocess.run(["cp", "-al", venv, copy / ".venv"], check=True)
    for path in [*(copy / ".venv/bin").iterdir(), *(copy / ".venv").glob("lib/*/site-packages/*headway*.pth")]:
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        if str(ROOT).encode() in data and b"\0" not in data:
            mode = path.stat().st_mode
            path.unlink()  # it is a link to the file of the present environment
            path.write_bytes(data.replace(str(ROOT).encode(), str(copy).encode()))
            path.chmod(mode)


def python(copy: Path) -> list[str]:
    return [str(copy / ".venv/bin/python"), "-m", "pytest"]


if __name__ == "__main__":
    main()
