"""Kill points: a process counts the points that it passes, and kills itself with SIGKILL before a chosen one.

Each statement sent to a database, on any connection and thread, is a point, and so is each start of git; tools declare further
ones. Each journal entry of a goal has three: before it is written, after it is written, and after it is committed.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, NoReturn

import apsw

from headway.storage.postgres.wire import Wire


class KillPoint:
    """The kill point of this process. Nothing is counted until a number is set."""

    moments = count(1)
    number: int | None = None
    point_log = ""  # the file that gets the name of the point reached
    only = ""  # count only points of this sort; if empty, count all
    passed = 0  # points counted so far


class Observer(threading.local):
    """Whether the current thread only observes."""

    observes = False


OBSERVER = Observer()


def arm(number: int, point_log: str, only: str = "") -> None:
    """Start counting, and kill this process before the point with that number."""
    KillPoint.moments, KillPoint.number, KillPoint.point_log, KillPoint.only = count(1), number, point_log, only


def pass_point(moment: str, sort: str = "tool") -> None:
    if KillPoint.number is None or KillPoint.only not in ("", sort) or OBSERVER.observes:
        return
    KillPoint.passed = next(KillPoint.moments)
    if KillPoint.passed == KillPoint.number:
        kill_self(moment)


@contextmanager
def observe() -> Iterator[None]:
    """Do not count the statements of this thread: they only observe."""
    OBSERVER.observes = True
    try:
        yield
    finally:
        OBSERVER.observes = False


def kill_self(moment: str) -> NoReturn:
    with open(KillPoint.point_log, "w") as point_log:
        point_log.write(moment)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def count_statements() -> None:
    """Count every statement, on SQLite with apsw's hook and on Postgres with ours."""
    apsw.connection_hooks.append(trace_connection)
    Wire.trace = before_sending
    sys.addaudithook(before_program)


def before_program(event: str, arguments: tuple[Any, ...]) -> None:
    """Count git, which runs in the sandbox where there is one."""
    if event == "subprocess.Popen" and "git" in (os.path.basename(str(argument)) for argument in arguments[1]):
        pass_point(" ".join(map(str, arguments[1])), "git")


class StatementTracer:
    """Finds the boundaries of journal entries among the statements of one connection."""

    def __init__(self) -> None:
        self.written = self.uncommitted = False

    def about_to(self, statement: str) -> str:
        """The sort of point before this statement."""
        writes = "INSERT INTO journal " in statement
        committed = self.uncommitted and "BEGIN" in statement
        at_boundary = writes or self.written or committed
        self.written, self.uncommitted = writes, writes or (self.uncommitted and not committed)
        return "journal" if at_boundary else "statement"


def trace_connection(connection: apsw.Connection) -> None:
    tracer = StatementTracer()

    def before_statement(_cursor: apsw.Cursor, statement: str, _bindings: object) -> bool:
        pass_point(statement, tracer.about_to(statement))
        return True

    connection.exec_trace = before_statement


TRACERS = threading.local()  # each thread has a connection


def before_sending(statement: str) -> None:
    """Pass a point before each statement that is sent to Postgres. An empty one is a wait for the replies."""
    if statement:
        TRACERS.tracer = getattr(TRACERS, "tracer", None) or StatementTracer()
        pass_point(statement, TRACERS.tracer.about_to(statement))
