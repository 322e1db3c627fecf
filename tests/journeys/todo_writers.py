"""Processes that add todos, several at once, until they are killed. Each is forked from one that has loaded every module, and
records the acknowledged todos in a file."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import apsw  # noqa: F401  loaded before the first fork
import psycopg  # noqa: F401

from headway.actions.todos import todos
from headway.ledger.todo import Change, Draft
from headway.storage.database import Database, TenantView
from tests.warm_start import build_command

AT_ONCE = 5


class Writing(NamedTuple):
    database_url: str
    tenant_id: int
    acknowledged: str  # the file that lists acknowledged todos
    name: str


class WriterServer:
    """The parent's handle on the process that forks writers."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def send_out(self, writing: Writing) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(writing) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextmanager
def run_writer_server() -> Iterator[WriterServer]:
    command = build_command(__file__)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield WriterServer(process)
        finally:
            process.terminate()


# In the fork server


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # let the kernel reap killed writers
    for line in sys.stdin:
        child = os.fork()
        if not child:
            asyncio.run(write(Writing._make(json.loads(line))))
        print(child, flush=True)


async def write(writing: Writing) -> None:
    database = Database(writing.database_url).of(writing.tenant_id)
    acknowledged = os.open(writing.acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    await asyncio.gather(*(add(database, writing, f"{writing.name}.{place}", acknowledged) for place in range(AT_ONCE)))


async def add(database: TenantView, writing: Writing, name: str, acknowledged: int) -> None:
    for number in count(1):
        draft = Draft(f"{name}.{number}")
        todo = await database.write(partial(todos.add_todo, tenant_id=writing.tenant_id, draft=draft))
        os.write(acknowledged, f"{todo.id} pending\n".encode())
        if number % 3 == 0:
            change = Change(status="completed")
            await database.write(partial(todos.change_todo, tenant_id=writing.tenant_id, todo_id=todo.id, changes=change))
            os.write(acknowledged, f"{todo.id} completed\n".encode())


if __name__ == "__main__":
    main()
