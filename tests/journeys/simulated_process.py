"""Headway in a process that is only simulated, so that hundreds of them can crash within seconds.

Each is a Headway with threads and an event loop of its own, on one SQLite file. Every statement on its connections is a point, and
so is each request to the model and each moment that a tool declares. At a chosen point it crashes. Every later statement of its
connections fails, so that no cleanup reaches the database, and its event loop stops. Closing its connections rolls back what they
have not committed, as the next process does after a kill.
"""

import asyncio
import ctypes
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import apsw

from headway.process.assembly import Headway

PATIENCE_S = 60


class Crash(SystemExit):
    """Ends a thread, and an event loop at once: nothing of ours catches it."""


class SimulatedProcess:
    """A process that runs one coroutine. `crash_at` is the number of the point before which it crashes."""

    def __init__(self, crash_at: int | None = None) -> None:
        self.crash_at = crash_at
        self.passed = 0
        self.last_point = ""
        self.is_dead = False
        self.lock = threading.Lock()
        self.loop = asyncio.new_event_loop()
        self.executor = ThreadPoolExecutor(4)
        self.loop.set_default_executor(self.executor)
        self.connections: list[apsw.Connection] = []
        self.headway: Headway | None = None

    def pass_point(self, point: str) -> None:
        with self.lock:
            self.passed += not self.is_dead
            if self.passed == self.crash_at and not self.is_dead:
                self.is_dead, self.last_point = True, point
                self.loop.call_soon_threadsafe(self.loop.stop)
            if self.is_dead:
                raise Crash(point)

    def trace(self, connection: apsw.Connection) -> None:
        def before_statement(_cursor: apsw.Cursor, statement: str, _bindings: object) -> bool:
            self.pass_point(statement)
            return True

        connection.exec_trace = before_statement
        self.connections.append(connection)

    def run(self, build: Callable[[], Headway], work: Callable[[Headway], Coroutine[Any, Any, None]]) -> bool:
        """Run the process to its end. Return whether it reached it."""

        async def live() -> None:
            self.headway = headway = build()
            headway.start()
            headway.start_agents()
            await headway.agents_ready()
            await work(headway)
            await headway.stop_agents()
            headway.close()

        try:
            self.loop.run_until_complete(asyncio.wait_for(live(), PATIENCE_S))
        except (Crash, RuntimeError):
            if not self.is_dead:
                raise
        self.bury()
        return not self.is_dead

    def bury(self) -> None:
        """Wait for its threads, and close what the kernel would have closed."""
        if self.headway:
            self.headway.database.writers.close()
        self.executor.shutdown()
        for connection in self.connections:
            connection.close(True)
        self.loop.set_exception_handler(lambda _loop, _context: None)  # its tasks have ended with a crash, or never will
        self.loop.close()
        # Nothing of a dead process runs any more, not even the `finally` blocks of tasks that are garbage.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(asyncio.all_tasks(self.loop)))


@contextmanager
def trace_connections(living: Callable[[], SimulatedProcess | None]) -> Iterator[None]:
    """Count the statements of new connections as statements of the living process."""

    def hook(connection: apsw.Connection) -> None:
        if process := living():
            process.trace(connection)

    def ignore_crash(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_type is not Crash:
            report(arguments)

    apsw.connection_hooks.append(hook)
    report, threading.excepthook = threading.excepthook, ignore_crash
    try:
        yield
    finally:
        apsw.connection_hooks.remove(hook)
        threading.excepthook = report
