"""Death at a chosen moment: a process counts the moments it passes, and is killed with SIGKILL before the one it was told.

Moments are the statements sent to a database, on whatever connection and thread, and those that tools tell of. Of a goal's journal
there are three for every entry: before it is written, once it is, and once that is committed.
"""

import os
import signal
from itertools import count
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import apsw
import psycopg


class Fate:
    """Of this process. While no number is chosen, nothing is counted."""

    moments = count(1)
    number: int | None = None
    diary = ""  # where the last words go
    only = ""  # moments of that sort count; if it is none, all do


def doom(number: int, diary: str, only: str = "") -> None:
    """From here on, count; die before that moment."""
    Fate.moments, Fate.number, Fate.diary, Fate.only = count(1), number, diary, only


def passing(moment: str, sort: str = "tool") -> None:
    if Fate.number is not None and Fate.only in ("", sort) and next(Fate.moments) == Fate.number:
        die(moment)


def die(moment: str) -> NoReturn:
    with open(Fate.diary, "w") as diary:
        diary.write(moment)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives this")


def count_statements() -> None:
    """apsw has a hook for this; psycopg has none."""
    apsw.connection_hooks.append(trace)
    psycopg.Cursor.execute = counted(psycopg.Cursor.execute)  # type: ignore[method-assign]


class Pen:
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


def trace(connection: apsw.Connection) -> None:
    pen = Pen()

    def before_statement(_cursor: apsw.Cursor, statement: str, _bindings: object) -> bool:
        passing(statement, pen.about_to(statement))
        return True

    connection.exec_trace = before_statement


PENS: WeakKeyDictionary[Any, Pen] = WeakKeyDictionary()  # of connections


def counted(execute: Any) -> Any:
    def execute_if_alive(cursor: Any, query: Any, *rest: Any, **options: Any) -> Any:
        passing(str(query), PENS.setdefault(cursor.connection, Pen()).about_to(str(query)))
        return execute(cursor, query, *rest, **options)

    return execute_if_alive
