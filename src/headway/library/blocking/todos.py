"""Methods without `await`. Written by scripts/write_sync_library.py from namespaces/todos.py."""

from collections.abc import Iterable, Iterator
from typing import Literal, Unpack

from headway.library.namespaces import todos
from headway.library.portal import Portal
from headway.values.todos import Claim, Comment, Receipt, Todo, TodoChanges, TodoDraft, TodoFields, TodoFilters
from headway.values.value import Page

ListId = int | Literal["tenant"]


class SyncTodos:
    """Adds, lists, changes and claims todos."""

    def __init__(self, portal: Portal, source: todos.Todos) -> None:
        self._portal = portal
        self._source = source

    def add(self, subject: str, **fields: Unpack[TodoFields]) -> Todo:
        """Add a todo at the end of its list, or at a position. A conversation_id of 0 is the list of the whole tenant."""
        return self._portal.run(self._source.add(subject, **fields))

    def add_many(self, todos: Iterable[str | TodoDraft]) -> tuple[Todo, ...]:
        """Add up to 500 todos, all or none. Each is a subject or a dictionary with the arguments of `add`."""
        return self._portal.run(self._source.add_many(todos))

    def get(self, todo_id: int) -> Todo:
        """Return a todo, or raise NotFound."""
        return self._portal.run(self._source.get(todo_id))

    def list(self, *, limit: int = 50, cursor: str | None = None, **filters: Unpack[TodoFilters]) -> Page[Todo]:
        """List todos: those in progress, then pending ones by position, then ended ones, the most recent first."""
        return self._portal.run(self._source.list(limit=limit, cursor=cursor, **filters))

    def iterate(self, **filters: Unpack[TodoFilters]) -> Iterator[Todo]:
        """Iterate over all todos of a list, page by page."""
        return self._portal.iterate(self._source.iterate(**filters))

    def ready(self, *, conversation_id: ListId | None = None, limit: int = 50) -> tuple[Todo, ...]:
        """List the todos that can start now: pending, with all dependencies ended."""
        return self._portal.run(self._source.ready(conversation_id=conversation_id, limit=limit))

    def update(self, todo_id: int, *, lease_token: str | None = None, force: bool = False, **changes: Unpack[TodoChanges]) -> Todo:
        """Change the given fields of a todo. While an agent holds a lease on it, pass its token, or force the change."""
        return self._portal.run(self._source.update(todo_id, lease_token=lease_token, force=force, **changes))

    def start(self, todo_id: int, *, lease_token: str | None = None, force: bool = False) -> Todo:
        """Mark a todo as in progress."""
        return self._portal.run(self._source.start(todo_id, lease_token=lease_token, force=force))

    def complete(
        self,
        todo_id: int,
        outcome: str | None = None,
        *,
        override: str | None = None,
        lease_token: str | None = None,
        force: bool = False,
    ) -> Todo:
        """Complete a todo. Its checks run first. If one fails, CheckFailed is raised; `override` says why it counts anyway."""
        return self._portal.run(self._source.complete(todo_id, outcome, override=override, lease_token=lease_token, force=force))

    def cancel(self, todo_id: int, outcome: str | None = None, *, lease_token: str | None = None, force: bool = False) -> Todo:
        """Cancel a todo. `outcome` says why."""
        return self._portal.run(self._source.cancel(todo_id, outcome, lease_token=lease_token, force=force))

    def reopen(self, todo_id: int) -> Todo:
        """Make an ended todo pending again."""
        return self._portal.run(self._source.reopen(todo_id))

    def delete(self, todo_id: int, *, lease_token: str | None = None, force: bool = False) -> None:
        """Delete a todo for good. Todos of a turn's plan cannot be deleted, only canceled."""
        return self._portal.run(self._source.delete(todo_id, lease_token=lease_token, force=force))

    def claim(self, agent_id: str, *, conversation_id: int | None = None, lease_s: float = 60) -> Claim | None:
        """Lease the next ready todo to an agent, or return None if there is none. Extend the lease with `heartbeat`."""
        return self._portal.run(self._source.claim(agent_id, conversation_id=conversation_id, lease_s=lease_s))

    def heartbeat(self, claim: Claim, *, lease_s: float = 60) -> Claim:
        """Extend a lease. Raises LeaseLost if another agent has claimed the todo since it expired."""
        return self._portal.run(self._source.heartbeat(claim, lease_s=lease_s))

    def receipts(self, todo_id: int) -> tuple[Receipt, ...]:
        """List what the checks of a todo found, newest first."""
        return self._portal.run(self._source.receipts(todo_id))

    def verify(self, todo_id: int) -> Receipt:
        """Run the checks of a todo again. A completed todo whose checks do not pass becomes `broken`."""
        return self._portal.run(self._source.verify(todo_id))

    def comment(self, todo_id: int, text: str) -> Comment:
        """Comment on a todo, under the name of the caller."""
        return self._portal.run(self._source.comment(todo_id, text))

    def comments(self, todo_id: int, *, limit: int = 50, cursor: str | None = None) -> Page[Comment]:
        """List the comments on a todo, oldest first."""
        return self._portal.run(self._source.comments(todo_id, limit=limit, cursor=cursor))

    def edit_comment(self, todo_id: int, comment_id: int, text: str) -> Comment:
        """Change the text of your own comment."""
        return self._portal.run(self._source.edit_comment(todo_id, comment_id, text))

    def delete_comment(self, todo_id: int, comment_id: int) -> None:
        """Delete a comment for good: your own, or any with the operator scope."""
        return self._portal.run(self._source.delete_comment(todo_id, comment_id))
