"""Death at a chosen moment: a process counts the moments it passes, and is killed with SIGKILL before the one it was told.

Moments are the statements sent to a database, on whatever connection and thread, and those that tools tell of.
"""

import os
import signal
from itertools import count
from typing import Any, NoReturn

import apsw
import psycopg


class Fate:
    """Of this process. While no number is chosen, nothing is counted."""

    moments = count(1)
    number: int | None = None
    diary = ""  # where the last words go
    only_tools = False


def doom(number: int, diary: str, *, only_tools: bool) -> None:
    """From here on, count; die before that moment."""
    Fate.moments, Fate.number, Fate.diary, Fate.only_tools = count(1), number, diary, only_tools


def passing(moment: str, *, in_tool: bool = True) -> None:
    if Fate.number is not None and (in_tool or not Fate.only_tools) and next(Fate.moments) == Fate.number:
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


def trace(connection: apsw.Connection) -> None:
    def before_statement(_cursor: apsw.Cursor, statement: str, _bindings: object) -> bool:
        passing(statement, in_tool=False)
        return True

    connection.exec_trace = before_statement


def counted(execute: Any) -> Any:
    def execute_if_alive(cursor: Any, query: Any, *rest: Any, **options: Any) -> Any:
        passing(str(query), in_tool=False)
        return execute(cursor, query, *rest, **options)

    return execute_if_alive
