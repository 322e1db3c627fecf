"""Paged lists of todos: in progress, then pending by position, then ended by most recent.

Each part of a list is read in order through an index, with a limit, so a page costs the same in a list of twenty and in one of a
hundred thousand.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from headway.ledger.check import Proof
from headway.ledger.cursors import CursorCodec
from headway.ledger.parsing.todo_fields import NO_DUE, SEPARATOR
from headway.ledger.scope import TENANT_WIDE, Selection
from headway.ledger.todo import ENDED_STATUSES, STATUSES, Status, Todo
from headway.ledger.wording import has_all_words
from headway.storage.stores.todos import SELECT, TODO_IS_SHOWN, TODO_LIST_IS_SHOWN, TODOS
from headway.storage.transaction import Transaction

PAGE_CHARACTERS = 2_000_000  # of long texts; a page ends early rather than take long to read and to encode
SEARCH_LIMIT = 2_000  # how many todos a search covers, so that its cost does not grow with the list
SEARCH_STEP = 200
IN_TURN = "turn_id = ?"
IN_CONVERSATION = "conversation_id = ?"
HAS_LABEL = "labels <> '' AND replace(labels, ?, '') <> labels"
MOST_URGENT_FIRST = "ORDER BY priority, due, position, id"
IS_DUE = f"due < ? AND due < {NO_DUE}"  # the second part lets databases use the index of todos with a date
CURSORS = CursorCodec("todos", (0, 0, 0))  # the part of the list, the sort key in it and the id


class TodoListPage(NamedTuple):
    todos: list[Todo]
    next_cursor: str | None
    searched_all: bool = True  # False: a search stopped before the end; it continues at the cursor


class SelectedLists(NamedTuple):
    """The lists that a selection covers, the conversation's own first: the condition on their rows, and each list's values."""

    where: str
    values: tuple[tuple[Any, ...], ...]


class ListPart(NamedTuple):
    """One part of a list: the queries that read it from its start or from a cursor, and the lists it covers. Ended rows of several
    lists are merged by time."""

    from_start: str
    from_cursor: str
    lists: tuple[int, ...]


def select_lists(tenant_id: int, selection: Selection) -> SelectedLists:
    filters: list[tuple[str, Any]] = [
        (IN_TURN, selection.turn_id),
        ("agent_id = ?", selection.agent_id),
        ("proof = ?", selection.proof),
        ("priority = ?", selection.fields.priority),
        (IS_DUE, selection.fields.due_before),
        *((HAS_LABEL, f"{SEPARATOR}{label}{SEPARATOR}") for label in selection.fields.labels),
        # A turn already identifies its list.
        (IN_CONVERSATION, selection.conversation_id if selection.turn_id is None else None),
    ]
    chosen = [(condition, value) for condition, value in filters if value is not None]
    conditions, values = tuple(condition for condition, _ in chosen), (tenant_id, *(value for _, value in chosen))
    has_tenant_wide = bool(selection.conversation_id) and IN_CONVERSATION in conditions and not selection.own_only
    where = build_where(conditions, with_plans=selection.with_plans)
    return SelectedLists(where, (values, (*values[:-1], TENANT_WIDE)) if has_tenant_wide else (values,))


def build_where(conditions: tuple[str, ...], *, with_plans: bool) -> str:
    """Build the condition for a selection. Without a turn and a conversation, it covers all lists but the deleted ones'."""
    where = "".join(f" AND {condition}" for condition in conditions) + ("" if with_plans else " AND turn_id IS NULL")
    return where if {IN_TURN, IN_CONVERSATION} & set(conditions) else f"{where} AND {TODO_IS_SHOWN}"


@cache
def build_parts(where: str, lists: int, statuses: tuple[Status, ...]) -> list[ListPart]:
    """Build the queries for a selection of this shape. There are few shapes, so the results are cached."""
    parts = [
        build_open_part(where, status, list_index)
        for status in ("in_progress", "pending")
        if status in statuses
        for list_index in range(lists)
    ]
    ended = [status for status in ("completed", "canceled") if status in statuses]
    if len(ended) == 1:
        where += f" AND status = '{ended[0]}'"
    return [*parts, build_ended_part(where, tuple(range(lists)))] if ended else parts


def build_open_part(where: str, status: Status, list_index: int) -> ListPart:
    select = f"{SELECT} WHERE tenant_id = ?{where} AND completed_at = 0 AND status = '{status}'"
    order = "ORDER BY position, id LIMIT ?"
    return ListPart(f"{select} {order}", f"{select} AND (position, id) > (?, ?) {order}", (list_index,))


def build_ended_part(where: str, lists: tuple[int, ...]) -> ListPart:
    # The few of a turn are found by the turn and sorted. The plus keeps the databases from reading all of the tenant's in order.
    ended_at = "+completed_at" if IN_TURN in where else "completed_at"
    select = f"{SELECT} WHERE tenant_id = ?{where} AND completed_at <> 0"
    order = f"ORDER BY {ended_at} DESC, id DESC LIMIT ?"
    return ListPart(f"{select} {order}", f"{select} AND ({ended_at}, id) < (?, ?) {order}", lists)


@lru_cache(maxsize=1_000)
def list_parts(tenant_id: int, selection: Selection) -> tuple[list[ListPart], tuple[tuple[Any, ...], ...]]:
    """Return the parts of the selected lists in order, and the values that select the rows of each list."""
    where, lists = select_lists(tenant_id, selection)
    chosen = selection.statuses or STATUSES
    left_out = ENDED_STATUSES if selection.fields.open_only else ()
    statuses = tuple(status for status in STATUSES if status in chosen and status not in left_out)
    return build_parts(where, len(lists), statuses), lists


def list_todo_page(tx: Transaction, tenant_id: int, selection: Selection, limit: int, cursor: str | None = None) -> TodoListPage:
    parts, lists = list_parts(tenant_id, selection)
    first_part, *last_keys = CURSORS.decode(cursor)
    todos: list[Todo] = []
    last_part, characters = 0, PAGE_CHARACTERS
    for number in range(first_part, len(parts)):
        after = last_keys if cursor and number == first_part else None
        room = limit - len(todos)
        # One more, to see whether there is a next page.
        rows, characters, is_cut = read_part(tx, parts[number], lists, room + 1, after, characters)
        if rows and room:
            last_part = number
        todos += rows[:room]
        if len(rows) > room or is_cut:
            return TodoListPage(todos, CURSORS.encode((last_part, get_sort_key(todos[-1]), todos[-1].id)))
    return TodoListPage(todos, None)


def get_sort_key(todo: Todo) -> int:
    return todo.completed_at if todo.ended else todo.position


def search_page(
    tx: Transaction, tenant_id: int, selection: Selection, words: list[str], limit: int, cursor: str | None = None
) -> TodoListPage:
    """List the selected todos that contain all words. Reads SEARCH_LIMIT todos and about PAGE_CHARACTERS characters from the cursor
    on. If there are more, the page has a cursor, even without a match."""
    parts, lists = list_parts(tenant_id, selection)
    first_part, *last_keys = CURSORS.decode(cursor)
    found: list[Todo] = []
    after, left, characters = last_keys if cursor else None, SEARCH_LIMIT, PAGE_CHARACTERS
    for number in range(first_part, len(parts)):
        is_over = False
        while not is_over:
            rows, _, is_cut = read_part(tx, parts[number], lists, SEARCH_STEP, after, characters)
            is_over = len(rows) < SEARCH_STEP and not is_cut
            for count, todo in enumerate(rows, 1):
                left -= 1
                characters -= measure_texts(todo)
                key = get_sort_key(todo)
                after = [key, todo.id]
                if contains_words(todo, words):
                    found.append(todo)
                is_full = len(found) == limit
                if is_full or left <= 0 or characters < 0:
                    is_end = count == len(rows) and is_over and number == len(parts) - 1
                    next_cursor = None if is_end else CURSORS.encode((number, key, todo.id))
                    return TodoListPage(found, next_cursor, is_full or is_end)
        after = None
    return TodoListPage(found, None)


def contains_words(todo: Todo, words: list[str]) -> bool:
    texts = (f"#{todo.id}", todo.subject, todo.description, todo.completion_criteria, todo.outcome or "")
    return has_all_words("\n".join(texts), words)


def read_part(
    tx: Transaction, part: ListPart, lists: tuple[tuple[Any, ...], ...], limit: int, after: list[int] | None, characters: int
) -> tuple[list[Todo], int, bool]:
    """Read the first todos of a part, as many as have a number of characters, but at least one. Returns how many are left, and
    whether that cut it off."""
    todos: list[Todo] = []
    left = characters
    cut_at: list[tuple[int, int]] = []  # the last todos of lists that were cut off
    for list_index in part.lists:
        sql, values = (part.from_cursor, (*lists[list_index], *after)) if after else (part.from_start, lists[list_index])
        own, own_left, is_cut = read_within(tx, sql, (*values, limit), characters)
        todos += own
        left = min(left, own_left)
        if is_cut:
            cut_at.append(get_ended_key(own[-1]))
    if len(part.lists) > 1:
        todos.sort(key=get_ended_key)
        if cut_at:  # what comes after it in the other list may come after what was not read
            todos = [todo for todo in todos if get_ended_key(todo) <= min(cut_at)]
    return todos[:limit], left, bool(cut_at)


def get_ended_key(todo: Todo) -> tuple[int, int]:
    return -todo.completed_at, -todo.id


def read_within(tx: Transaction, sql: str, parameters: tuple[Any, ...], characters: int) -> tuple[list[Todo], int, bool]:
    """Read todos until their texts have a number of characters. Returns how many are left, and whether more todos follow. SQLite
    reads row by row, and no further."""
    todos: list[Todo] = []
    rows = tx.stream(sql, *parameters) if tx.dialect.name == "sqlite" else tx.all(sql, *parameters)
    for todo in map(TODOS.load, rows):
        if characters < 0 and todos:
            return todos, characters, True
        todos.append(todo)
        characters -= len(todo.description) + len(todo.completion_criteria) + len(todo.outcome or "") + len(todo.checks)
    return todos, characters, False


def measure_texts(todo: Todo) -> int:
    return len(todo.description) + len(todo.completion_criteria) + len(todo.outcome or "") + len(todo.checks)


@cache
def build_ready_sql(where: str) -> str:
    return f"""{SELECT} WHERE tenant_id = ?{where} AND status = 'pending' AND blocked_by = 0
        {MOST_URGENT_FIRST} LIMIT ?"""


def list_ready_todos(tx: Transaction, tenant_id: int, conversation_id: int | None, limit: int) -> list[Todo]:
    """List todos that can start, in order: pending, without open dependencies and not part of a turn's plan."""
    where, lists = select_lists(tenant_id, Selection(conversation_id, with_plans=False))
    todos: list[Todo] = []
    for values in lists:
        todos += map(TODOS.load, tx.all(build_ready_sql(where), *values, limit - len(todos)))
    return todos


def count_by_status(tx: Transaction, tenant_id: int, selection: Selection) -> dict[Status, int]:
    """Count todos by status, from the stored counters."""
    where, values = "", list[Any]((tenant_id,))
    if selection.turn_id is not None:
        # Todo lists are indexed by conversation; without it, all lists of the tenant would be scanned.
        where += " AND conversation_id = (SELECT conversation_id FROM turns WHERE tenant_id = ? AND id = ?) AND turn_id = ?"
        values += [tenant_id, selection.turn_id, selection.turn_id]
    elif selection.conversation_id is not None:
        other = selection.conversation_id if selection.own_only else TENANT_WIDE
        where, values = where + " AND conversation_id IN (?, ?)", [*values, selection.conversation_id, other]
    else:
        where = f" AND {TODO_LIST_IS_SHOWN}"
    row = tx.one(
        f"SELECT SUM(pending), SUM(in_progress), SUM(completed), SUM(canceled) FROM todo_lists WHERE tenant_id = ?{where}", *values
    )
    assert row is not None
    return {status: int(n or 0) for status, n in zip(STATUSES, row, strict=True)}


def count_rows_by_status(tx: Transaction, tenant_id: int, selection: Selection) -> dict[Status, int]:
    """Count todos by status, row by row: there are counters for lists only."""
    where, lists = select_lists(tenant_id, selection)
    where += " AND completed_at = 0" if selection.fields.open_only else ""
    sql = f"SELECT status, COUNT(*) FROM todos WHERE tenant_id = ?{where} GROUP BY status"
    counts: dict[Status, int] = dict.fromkeys(STATUSES, 0)
    for values in lists:
        for status, count in tx.all(sql, *values):
            counts[status] += int(count)
    return counts


def list_open_ids(tx: Transaction, tenant_id: int, todo_ids: Sequence[int]) -> list[int]:
    """Return which of the todos have not ended."""
    marks = ", ".join("?" * len(todo_ids))
    sql = f"SELECT id FROM todos WHERE tenant_id = ? AND completed_at = 0 AND id IN ({marks}) ORDER BY id"
    return [int(row[0]) for row in tx.all(sql, tenant_id, *todo_ids)]


def count_all_by_status(tx: Transaction) -> dict[Status, int]:
    """Count todos by status across all tenants, for the operator."""
    row = tx.one("SELECT SUM(pending), SUM(in_progress), SUM(completed), SUM(canceled) FROM todo_lists")
    assert row is not None
    return {status: int(n or 0) for status, n in zip(STATUSES, row, strict=True)}


def list_subjects(tx: Transaction, tenant_id: int, conversation_id: int, limit: int, *, ended: bool) -> list[tuple[int, str]]:
    """List (id, subject) of a list's open rows, or of its most recently ended ones."""
    state = "completed_at <> 0" if ended else "completed_at = 0"
    rows = tx.all(
        f"""SELECT id, subject FROM todos WHERE tenant_id = ? AND conversation_id = ? AND {state}
            ORDER BY completed_at DESC, id DESC LIMIT ?""",
        tenant_id,
        conversation_id,
        limit,
    )
    return [(int(todo_id), str(subject)) for todo_id, subject in rows]


def has_list(tx: Transaction, tenant_id: int, conversation_id: int, turn_id: str | None) -> bool:
    """Whether this list was ever written to."""
    sql = "SELECT 1 FROM todo_lists WHERE tenant_id = ? AND conversation_id = ? AND turn_id = ?"
    return tx.one(sql, tenant_id, conversation_id, turn_id or "") is not None


class TodoSummary(NamedTuple):
    """A todo as it is shown where another one refers to it."""

    id: int
    subject: str
    status: Status
    proof: Proof


SUMMARY_COLUMNS = "todos.id, subject, status, proof"


def list_waited_for(tx: Transaction, tenant_id: int, todo_id: int) -> list[TodoSummary]:
    """List the todos that this one waits for."""
    sql = f"""SELECT {SUMMARY_COLUMNS} FROM todo_edges e JOIN todos ON todos.tenant_id = e.tenant_id AND todos.id = e.depends_on
        WHERE e.tenant_id = ? AND e.todo_id = ? ORDER BY todos.id"""
    return [TodoSummary._make(row) for row in tx.all(sql, tenant_id, todo_id)]


def list_waiting_todos(tx: Transaction, tenant_id: int, todo_id: int, limit: int) -> list[TodoSummary]:
    """List the todos that wait for this one."""
    sql = f"""SELECT {SUMMARY_COLUMNS} FROM todo_edges e JOIN todos ON todos.tenant_id = e.tenant_id AND todos.id = e.todo_id
        WHERE e.tenant_id = ? AND e.depends_on = ? ORDER BY todos.id LIMIT ?"""
    return [TodoSummary._make(row) for row in tx.all(sql, tenant_id, todo_id, limit)]
