"""The dependencies of a todo in both directions, with what a person needs to recognise them."""

from typing import Any, Final, NamedTuple

from headway.actions import todos
from headway.storage.stores import todo_pages
from headway.storage.stores.todo_pages import TodoSummary
from headway.storage.transaction import Transaction

WAITING_LIMIT: Final = 100


class TodoNeighbours(NamedTuple):
    waits_for: list[TodoSummary]
    needed_by: list[TodoSummary]
    has_more: bool  # more todos wait for it than are listed

    def as_json(self) -> dict[str, Any]:
        return {
            "waits_for": [summary._asdict() for summary in self.waits_for],
            "needed_by": [summary._asdict() for summary in self.needed_by],
            "has_more": self.has_more,
        }


def list_neighbours(tx: Transaction, tenant_id: int, todo_id: int) -> TodoNeighbours:
    todos.get(tx, tenant_id, todo_id)
    waiting = todo_pages.list_waiting(tx, tenant_id, todo_id, WAITING_LIMIT + 1)
    waits_for = todo_pages.list_waited_for(tx, tenant_id, todo_id)
    return TodoNeighbours(waits_for, waiting[:WAITING_LIMIT], len(waiting) > WAITING_LIMIT)
