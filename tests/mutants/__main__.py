"""`make mutants`: counts which small faults in the code the tests notice.

A sample of faults (mutants) was drawn with a fixed seed and is kept in sample.json. All of them are written into a copy of the
tree, where a number switches one on. One run of the suite records which tests reach which mutant. Then each mutant is switched on,
and its tests run, cheap ones first, until one fails. An interrupted run continues where it was.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.mutants import sites

ROOT = Path(__file__).parents[2]
TREES = ROOT / ".cache" / "mutants"
PAGE = ROOT / "docs" / "internals" / "proof.md"
BEGIN, END = "<!-- mutants -->", "<!-- /mutants -->"
SECONDS_PER_MUTANT = 20.0  # of tests, by the times that were recorded
PYTEST = ("-p", "tests.mutants.plugin", "-q", "-p", "no:cacheprovider")
STATES = ("noticed", "survived", "not reached", "gone")
NOTICED = Path(__file__).with_name("noticed.json")  # the mutants that were noticed when the table was last written


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout whose code and tests are tried")
    parser.add_argument("--workers", type=int, default=2, help="how many mutants are tried at a time")
    parser.add_argument("--marks", default="not torture and not compatibility", help="the tests to run, as pytest's -m")
    parser.add_argument("--draw", action="store_true", help="draw a new sample from the present code, and stop")
    parser.add_argument("--anew", action="store_true", help="record again which tests reach which mutant")
    parser.add_argument("--write", action="store_true", help="write the table into docs/internals/proof.md")
    options = parser.parse_args()
    tree = options.tree.resolve()
    if options.draw:
        sites.save(sites.draw(tree))
        print(f"{len(sites.load())} mutants are in {sites.SAMPLE}.")
        return
    folder = TREES / tree.name
    if options.anew:
        shutil.rmtree(folder, ignore_errors=True)
    if not (folder / "reached.json").exists():
        record(tree, folder, options.marks)
    run(tree, folder, options.marks, options.workers)
    lines = list(tabulate(folder))
    print("\n".join(lines))
    noticed = [number for number, row in find_results(folder).items() if row["failed"]]
    print("Noticed before, and not now:", sorted(set(json.loads(NOTICED.read_text(encoding="utf-8"))) - set(noticed)))
    if options.write:
        NOTICED.write_text(json.dumps(sorted(noticed)) + "\n", encoding="utf-8")
        text = PAGE.read_text(encoding="utf-8")
        before, after = text.index(BEGIN) + len(BEGIN), text.index(END)
        PAGE.write_text(text[:before] + "\n\n" + "\n".join(lines) + "\n\n" + text[after:], encoding="utf-8")


def record(tree: Path, folder: Path, marks: str) -> None:
    """Run the suite once, and store which tests reach which mutants."""
    copy = build(tree, folder / "record")
    for name in ("current", "hits", "times"):
        (copy / ".mutants" / name).mkdir(parents=True)
    subprocess.run([*python(copy), *PYTEST, "-m", marks, "-n", "3"], cwd=copy)
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


def run(tree: Path, folder: Path, marks: str, workers: int) -> None:
    """Try every mutant that has no result yet."""
    ended = find_results(folder)
    rows = json.loads((folder / "reached.json").read_text(encoding="utf-8"))
    tests: dict[int, list[tuple[float, float, str]]] = defaultdict(list)
    for name, seconds, reached in rows:
        for mutant in reached:
            tests[mutant].append((seconds * len(reached), seconds, name))
    plans: list[list[list[object]]] = [[] for _ in range(workers)]
    for place, (mutant, known) in enumerate((mutant, known) for mutant, known in sorted(tests.items()) if mutant not in ended):
        chosen, total = [], 0.0
        for _, seconds, name in sorted(known):  # cheap tests that reach little else come first
            if total < SECONDS_PER_MUTANT:
                chosen.append(name)
                total += seconds
        plans[place % workers].append([mutant, chosen, 60 + 4 * total])
    running = []
    for number, plan in enumerate(filter(None, plans)):
        copy = build(tree, folder / f"run{number}")
        path = folder / f"plan{number}.json"
        path.write_text(json.dumps(plan), encoding="utf-8")
        with (folder / f"log{number}").open("w") as log:
            command = [*python(copy), *PYTEST, "-m", marks, f"--run-mutants={path}"]
            running.append(subprocess.Popen(command, cwd=copy, stdout=log, stderr=log))
    for process in running:
        process.wait()


def find_results(folder: Path) -> dict[int, dict[str, Any]]:
    """The results so far, by the number of the mutant."""
    lines = [line for path in folder.glob("plan*.done") for line in path.read_text(encoding="utf-8").splitlines()]
    return {row["mutant"]: row for row in map(json.loads, lines)}


def tabulate(folder: Path) -> Iterator[str]:
    """The table, one line per part of the code, and the mutants that no test noticed."""
    found = find_results(folder)
    gone = set(json.loads((folder / "gone.json").read_text(encoding="utf-8")))
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for number, mutant in enumerate(sites.load()):
        row = found.get(number)
        state = "gone" if number in gone else "not reached" if row is None else "noticed" if row["failed"] else "survived"
        counts[mutant.part][state] += 1
        if state in ("survived", "not reached"):
            print(f"{number:4} {state:12} {mutant.file}:{mutant.function}: {mutant.before!r} -> {mutant.after!r}")
    counts["all"] = sum(counts.values(), Counter())
    yield f"| part | mutants | {' | '.join(STATES)} |"
    yield "|---|" + "---|" * (len(STATES) + 1)
    for part, count in counts.items():
        yield f"| {part} | {count.total()} | {' | '.join(str(count[state]) for state in STATES)} |"


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
    (copy.parent / "gone.json").write_text(json.dumps(gone), encoding="utf-8")
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
