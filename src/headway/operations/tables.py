"""Finds operations by their routes. A subject's module is imported when the first of its operations is called."""

from functools import cache
from importlib import import_module
from typing import Final

from headway.operations.operation import Operation, OperationTable

# The modules in this package that have the operations whose paths begin with a word. REST mounts them in this order.
MODULES: Final = {
    "todos": ("todos", "board"),
    "views": ("board",),
    "conversations": ("conversations",),
    "turns": ("turns",),
    "goals": ("goals",),
    "inbox": ("people",),
    "approvals": ("people",),
    "questions": ("people",),
    "files": ("files",),
    "memory": ("memory",),
    "agents": ("agents",),
    "schedules": ("schedules",),
    "jobs": ("jobs",),
    "queue": ("jobs",),
    "webhooks": ("webhooks",),
    "tokens": ("tokens",),
    "halt": ("operators",),
    "costs": ("operators",),
    "quotas": ("operators",),
    "audit": ("operators",),
    "notices": ("operators",),
    "why": ("why",),
}


def list_tables() -> list[OperationTable]:
    names = dict.fromkeys(name for names in MODULES.values() for name in names)
    return [load_table(name) for name in names]


def find_operation(route: str) -> Operation:
    """Return the operation of a route such as `GET /todos/{}`."""
    return index_routes(route.split("/")[1])[route]


@cache
def index_routes(subject: str) -> dict[str, Operation]:
    return {operation.route: operation for name in MODULES[subject] for operation in load_table(name).operations}


def load_table(name: str) -> OperationTable:
    table: OperationTable = import_module(f"headway.operations.{name}").table
    return table
