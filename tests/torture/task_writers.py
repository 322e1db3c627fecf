"""Eight writers of one task list, killed repeatedly. Runs in a separate process that forks them, so that they start at once.

`python task_writers.py FOLDER KILLS`. Each writer increments the counter of its own task, and reports each stored value.
"""

import os
import signal
import sys
from pathlib import Path
from random import Random
from time import sleep
from typing import Any

from headway.storage.home_files import TaskFile

CONVERSATION = "0c0ffee00000400080000000deadbeef"
WRITERS = 8


class Writer:
    """A process that increments its task's counter until it is killed, starting from the stored value."""

    def __init__(self, file: TaskFile, name: str, seed: int) -> None:
        self.name = name
        self.acknowledged = 0
        read_end, write_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(read_end)
                count_up(file, name, Random(seed), write_end)
            finally:
                os._exit(1)  # the parent has closed the pipe
        os.close(write_end)
        self.reports = os.fdopen(read_end)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        with self.reports:
            self.acknowledged = max([self.acknowledged, *(int(line) for line in self.reports if line.endswith("\n"))])


def count_up(file: TaskFile, name: str, chance: Random, write_end: int) -> None:
    def change(tasks: list[dict[str, Any]]) -> int:
        (task,) = (task for task in tasks if task["id"] == name)
        task["count"] += 1
        task["title"] = f"{task['count']} " + "x" * chance.choice((0, 500, 9_000))
        return int(task["count"])

    while True:
        os.write(write_end, f"{file.change(change)}\n".encode())


def check(tasks: list[dict[str, Any]], killed: Writer) -> None:
    """Check that the list is intact, that each task is there once, and that at most one unreported increment was stored."""
    assert [task["id"] for task in tasks] == [str(number) for number in range(WRITERS)]
    assert all(int(task["title"].split()[0]) == task["count"] for task in tasks)
    stored = tasks[int(killed.name)]["count"]
    assert killed.acknowledged <= stored <= killed.acknowledged + 1, f"{killed.acknowledged} acknowledged, {stored} found"


def main(folder: str, kills: int) -> None:
    file = TaskFile(folder, CONVERSATION, 7)
    file.change(lambda tasks: tasks.extend({"id": str(number), "title": "0 ", "count": 0} for number in range(WRITERS)))
    writers = [Writer(file, str(number), number) for number in range(WRITERS)]
    for seed in range(kills):
        chance = Random(seed)
        sleep(chance.uniform(0, 0.02))  # so that the kill comes at a random moment
        victim = chance.randrange(WRITERS)
        writers[victim].kill()
        try:
            check(file.read(), writers[victim])
        except BaseException:
            print("seed", seed, file=sys.stderr)
            raise
        acknowledged = file.read()[victim]["count"]
        writers[victim] = Writer(file, str(victim), seed)
        writers[victim].acknowledged = acknowledged
    for writer in writers:
        writer.kill()
        check(file.read(), writer)
    file.change(lambda _tasks: None)
    left = sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*"))
    assert left == [".locks", f".locks/{CONVERSATION[:2]}", f"{CONVERSATION}.json", "7.json"], left
    print(sum(task["count"] for task in file.read()))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
