"""Finding the todo that somebody means: by number, or by what it says."""

from headway.actions import todos
from headway.ledger.errors import Invalid, NotFound
from headway.ledger.scope import Scope, Selection
from headway.ledger.text import MAX_INTEGER
from headway.ledger.todo import Todo
from headway.storage import todo_pages
from headway.storage.transaction import Transaction

SEARCHED = 5_000  # how many open rows, and how many of the most recently ended ones, are compared with a subject


class Ambiguous(Invalid):
    """Several todos match."""


def meant(tx: Transaction, scope: Scope, reference: str) -> Todo:
    """`14` and `#14` are ids and nothing else. Other text is a subject: exact, then in any case, then a unique beginning;
    among open todos first, then among ended ones."""
    reference = reference.strip()
    digits = reference.removeprefix("#")
    if digits.isascii() and digits.isdigit():
        return visible(tx, scope, digits)
    if not reference:
        raise Invalid("name a todo by its id or its subject")
    for selection in (
        Selection(scope.conversation_id, statuses=("in_progress", "pending"), plans=False),
        Selection(scope.conversation_id, statuses=("completed", "canceled"), plans=False),
    ):
        found = matching(candidates(tx, scope.tenant_id, selection), reference)
        if len(found) > 1:
            raise Ambiguous(f"ambiguous: {', '.join(f'#{todo.id}' for todo in found[:10])} match; use the id")
        if found:
            return found[0]
    raise NotFound("no todo with that subject")


def visible(tx: Transaction, scope: Scope, digits: str) -> Todo:
    """By id, if it is one this scope sees: the conversation's own, or a tenant-wide one."""
    if len(digits) < len(str(MAX_INTEGER)):
        todo = todos.get(tx, scope.tenant_id, int(digits))
        if todo.conversation_id in (0, scope.conversation_id) or not scope.conversation_id:
            return todo
    raise NotFound(f"No todo {digits[:20]}.")


def candidates(tx: Transaction, tenant_id: int, selection: Selection) -> list[Todo]:
    found: list[Todo] = []
    cursor: str | None = None
    while len(found) < SEARCHED:
        page = todo_pages.page(tx, tenant_id, selection, 500, cursor)
        found += page.todos
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def matching(rows: list[Todo], reference: str) -> list[Todo]:
    folded = reference.casefold()
    return (
        [todo for todo in rows if todo.subject == reference]
        or [todo for todo in rows if todo.subject.casefold() == folded]
        or [todo for todo in rows if todo.subject.casefold().startswith(folded)]
    )
