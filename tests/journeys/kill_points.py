"""Kill points: a process counts the points that it passes, and kills itself with SIGKILL before a chosen one.

Points are the statements sent to a database, on any connection and thread, and those that tools declare. Of a goal's journal
there are three for every entry: before it is written, once it is, and once that is committed.
"""

import os
import signal
from itertools import count
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import apsw
import psycopg


class KillPoint:
    """Of this process. While no number is chosen, nothing is counted."""

    moments = count(1)
    number: int | None = None
    point_log = ""  # the file that names the point reached
    only = ""  # moments of that sort count; if it is none, all do


def arm(number: int, point_log: str, only: str = "") -> None:
    """Start counting, and kill this process before the point with that number."""
    KillPoint.moments, KillPoint.number, KillPoint.point_log, KillPoint.only = count(1), number, point_log, only


def pass_point(moment: str, sort: str = "tool") -> None:
    if KillPoint.number is not None and KillPoint.only in ("", sort) and next(KillPoint.moments) == KillPoint.number:
        kill_self(moment)


def kill_self(moment: str) -> NoReturn:
    with open(KillPoint.point_log, "w") as point_log:
        point_log.write(moment)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def count_statements() -> None:
    """apsw has a hook for this; psycopg has none."""
    apsw.connection_hooks.append(trace_connection)
    psycopg.Cursor.execute = count_calls(psycopg.Cursor.execute)  # type: ignore[method-assign]


class StatementTracer:
    """One connection, as far as the journal is concerned."""

    def __init__(self) -> None:
        self.written = self.uncommitted = False

    def about_to(self, statement: str) -> str:
        """Which sort of moment this is."""
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


TRACERS: WeakKeyDictionary[Any, StatementTracer] = WeakKeyDictionary()  # of connections


def count_calls(execute: Any) -> Any:
    def execute_if_alive(cursor: Any, query: Any, *rest: Any, **options: Any) -> Any:
        pass_point(str(query), TRACERS.setdefault(cursor.connection, StatementTracer()).about_to(str(query)))
        return execute(cursor, query, *rest, **options)

    return execute_if_alive
