"""Resolves references to todos, by id or by subject."""

from headway.actions.todos import todos
from headway.ledger.errors import Invalid, NotFound
from headway.ledger.scope import TENANT_WIDE, Scope
from headway.ledger.text import MAX_INTEGER
from headway.ledger.todo import Todo
from headway.storage.stores import forks as fork_store
from headway.storage.stores import todo_pages
from headway.storage.transaction import Transaction

SEARCH_LIMIT = 2_000  # open rows, and recently ended rows, that are compared per list


class Ambiguous(Invalid):
    """Several todos match."""


def resolve_todo(tx: Transaction, scope: Scope, reference: str) -> Todo:
    """Find a todo. `14` and `#14` are always ids. Other text is a subject, matched exactly, then ignoring case, then as a unique
    prefix; open todos are tried before ended ones."""
    reference = reference.strip()
    digits = reference.removeprefix("#")
    if digits.isascii() and digits.isdigit():
        return get_visible(tx, scope, digits)
    if not reference:
        raise Invalid("name a todo by its id or its subject")
    for ended in (False, True):
        matches = sorted(match_subjects(list_candidates(tx, scope, ended=ended), reference))
        if len(matches) > 1:
            raise Ambiguous(f"ambiguous: {', '.join(f'#{todo_id}' for todo_id in matches[:10])} match; use the id")
        if matches:
            return todos.get_todo(tx, scope.tenant_id, matches[0])
    raise NotFound("no todo with that subject")


def get_visible(tx: Transaction, scope: Scope, digits: str) -> Todo:
    """Return a todo by id if the scope can see it: one of its conversation or a tenant-wide one."""
    if len(digits) < len(str(MAX_INTEGER)):
        todo = todos.get_todo(tx, scope.tenant_id, find_own_id(tx, scope, int(digits)))
        if todo.conversation_id in (0, scope.conversation_id) or not scope.conversation_id:
            return todo
    raise NotFound(f"No todo {digits[:20]}.")


def find_own_id(tx: Transaction, scope: Scope, todo_id: int) -> int:
    """Return the number of the todo that a scope means. In a fork, the number of a copied todo means the copy."""
    return (
        (fork_store.find_copy(tx, scope.tenant_id, scope.conversation_id, str(todo_id)) or todo_id)
        if scope.conversation_id
        else todo_id
    )


def list_candidates(tx: Transaction, scope: Scope, *, ended: bool) -> list[tuple[int, str]]:
    """List (id, subject) of the todos that the scope can see."""
    lists = dict.fromkeys((scope.conversation_id, TENANT_WIDE))
    return [row for list in lists for row in todo_pages.list_subjects(tx, scope.tenant_id, list, SEARCH_LIMIT, ended=ended)]


def match_subjects(rows: list[tuple[int, str]], reference: str) -> list[int]:
    folded_reference = reference.casefold()
    return (
        [todo_id for todo_id, subject in rows if subject == reference]
        or [todo_id for todo_id, subject in rows if subject.casefold() == folded_reference]
        or [todo_id for todo_id, subject in rows if subject.casefold().startswith(folded_reference)]
    )
