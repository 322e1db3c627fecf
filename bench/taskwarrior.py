"""Compares Headway with Taskwarrior, another tool for todo lists."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

from bench import bare
from bench.bulk import new_ledger
from bench.cold_start import run_headway
from bench.harness import Measurements, Unavailable, Workshop, at_least, benchmark, in_turns, rate
from headway.actions.todos import todos
from headway.ledger.todo import Todo
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction

TODOS = 1_000
ADDS = 50
ROUNDS = 5


@benchmark("peer.1000", "1,000 todos in one batch", "Taskwarrior, `task add` each (from 50)", at_least(20))
def batch(shop: Workshop) -> Measurements:
    ledger = new_ledger(shop.folder / "peer.db")

    def add_all(tx: Transaction) -> list[Todo]:
        return [todo for _ in range(2) for todo in todos.add_many(tx, ledger.tenant_id, [bare.DRAFT] * (TODOS // 2))]

    with DirectDatabase(ledger.url) as database:
        return in_turns(lambda: rate(TODOS, lambda: database.write(add_all)), partial(rate, ADDS, task_adds(shop)), ROUNDS)


@benchmark("peer.1000.import", "`headway todo import` of 1,000, the whole process", "Taskwarrior, `task import` of 1,000", None)
def imported(shop: Workshop) -> Measurements:
    ours, theirs = shop.folder / "todos.json", shop.folder / "tasks.json"
    ours.write_text(json.dumps({"todos": [{"subject": bare.SUBJECT} for _ in range(TODOS)]}))
    theirs.write_text(json.dumps([{"description": bare.SUBJECT, "status": "pending"} for _ in range(TODOS)]))
    homes = (f"import-{number}" for number in count())
    return in_turns(
        lambda: rate(TODOS, partial(run_headway, shop, next(homes), "todo", "import", str(ours))),
        lambda: rate(TODOS, partial(run_task, shop.folder / next(homes), "import", str(theirs))),
        ROUNDS,
    )


def task_adds(shop: Workshop) -> Callable[[], None]:
    home = shop.folder / "task-adds"

    def adds() -> None:
        for _ in range(ADDS):
            run_task(home, "add", bare.SUBJECT)

    return adds


def run_task(home: Path, *arguments: str) -> None:
    """Run Taskwarrior with its own home and settings."""
    command = shutil.which("task")
    if command is None:
        raise Unavailable("needs Taskwarrior 2 or 3: apt-get install taskwarrior")
    home.mkdir(exist_ok=True)
    (home / "taskrc").touch()
    environment = {**os.environ, "TASKRC": str(home / "taskrc"), "TASKDATA": str(home)}
    subprocess.run([command, "rc.confirmation=no", *arguments], env=environment, capture_output=True, check=True)
