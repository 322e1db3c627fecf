"""The plan of a turn, which is also its queue: items added, started, ended, replaced as a list, and left open."""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from math import isfinite
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from headway.actions.todos import conversations, todos
from headway.actions.todos.turn_state import QueueState, check_room, emit_queue_at_commit, load_queue_state, lock_plan
from headway.ledger.errors import AlreadyEnded, Conflict, Invalid, NotFound
from headway.ledger.events import Event, build_moves_event, build_todo_event, encode_json
from headway.ledger.items.doubts import ItemFinding, judge_item
from headway.ledger.items.request_items import INTRODUCTION_END, asks_for_words, concerns_item, list_paths, split_request
from headway.ledger.items.work import Exists, Work
from headway.ledger.scope import Scope
from headway.ledger.tenancy import PlanSource, Turn
from headway.ledger.text import SUBJECT_LIMIT, TEXT_LIMIT
from headway.ledger.todo import Change, CompletedBy, Draft, Status, Todo
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import forks as fork_store
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction, act_as

# These tools spell it with two l's, as the agents trained on them do.
STATUS_SPELLING: dict[Status, str] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
    "canceled": "cancelled",
}


class PlanItem(NamedTuple):
    title: str
    context: str = ""
    completion_criteria: str = ""
    agent_type: str | None = None
    order: int | None = None  # counts from 1; by default, the item is added at the end
    checks: str = ""  # JSON


class CreatedItems(NamedTuple):
    todos: list[Todo]
    pending: int


def create_plan(
    tx: Transaction, scope: Scope, turn_id: str, items: list[PlanItem], source: PlanSource | None = None
) -> CreatedItems:
    """Add all items or none. An item with an order is inserted there, and the rows from there on move down.

    The first items of a turn decide the source of its plan. It is the actor (an agent or a person) unless `source` is given.
    """
    if not items:
        raise Invalid("items must not be empty: name at least one.")
    misplaced = next((n for n, item in enumerate(items) if item.order is not None and item.order < 1), None)
    if misplaced is not None:
        raise Invalid(f"items[{misplaced}].order counts from 1.")
    conversation_id, plan = lock_plan(tx, scope.tenant_id, turn_id)
    check_room(sum(not todo.ended for todo in plan), len(items))
    drafts = [build_draft(scope, conversation_id, turn_id, item).checked() for item in items]
    new_todos = todo_store.insert_pending(tx, scope.tenant_id, drafts, [todos.make_uuid() for _ in drafts], source)
    # Items without an order first, then the others in ascending order, so that none moves another from its place.
    for todo, order in sorted(zip(new_todos, (item.order for item in items), strict=True), key=lambda pair: pair[1] or 0):
        plan.insert(len(plan) if order is None else min(order - 1, len(plan)), todo)
    plan = renumber(tx, scope.tenant_id, plan, {todo.id for todo in new_todos})
    emit_queue_at_commit(tx, scope.tenant_id, turn_id)
    by_id = {todo.id: todo for todo in plan}
    return CreatedItems([by_id[todo.id] for todo in new_todos], sum(todo.status == "pending" for todo in plan))


def build_draft(scope: Scope, conversation_id: int, turn_id: str, item: PlanItem) -> Draft:
    return Draft(
        item.title,
        item.context,
        item.completion_criteria,
        item.agent_type,
        agent_id=scope.agent_id,
        conversation_id=conversation_id,
        turn_id=turn_id,
        checks=item.checks,
    )


def renumber(tx: Transaction, tenant_id: int, plan: list[Todo], new_ids: Container[int] = ()) -> list[Todo]:
    """Store the positions of a locked plan's rows, and emit events: one for all that moved, and one for each that is new."""
    positions = {todo.id: position for position, todo in enumerate(plan) if todo.position != position}
    todo_store.save_positions(tx, tenant_id, positions)
    numbered = [todo._replace(position=positions[todo.id], updated_at=tx.now) if todo.id in positions else todo for todo in plan]
    moved = {todo_id: position for todo_id, position in positions.items() if todo_id not in new_ids}
    if moved:
        tx.emit(build_moves_event(tenant_id, plan[0], moved, tx.now))
    for todo in numbered:
        if todo.id in new_ids:
            tx.emit(build_todo_event(tenant_id, todo, "created"))
    return numbered


def take_over(tx: Transaction, tenant_id: int, source: Turn, turn_id: str) -> None:
    """Move the open rows of an ended turn's plan to a new turn of the same conversation, so that no todo is listed twice."""
    if not source.ended:
        raise Conflict(f"Turn {source.id} has not ended, so its plan cannot be continued.")
    open_rows = [todo for todo in lock_plan(tx, tenant_id, source.id).rows if not todo.ended]
    if not open_rows:
        raise Conflict(f"Turn {source.id} has no open todos to continue with.")
    for old, new in zip(open_rows, conversation_store.move_plan(tx, tenant_id, open_rows, turn_id), strict=True):
        tx.emit(build_todo_event(tenant_id, new, "updated", old))
    emit_queue_at_commit(tx, tenant_id, source.id)
    emit_queue_at_commit(tx, tenant_id, turn_id)


def start_plan_item(tx: Transaction, scope: Scope, turn_id: str, reference: str) -> Todo:
    todo = get_plan_item(tx, scope, turn_id, reference)
    check_not_ended(todo, f" To work on it again, reopen it first: todo_update with id {todo.id} and status pending.")
    return todos.start_todo(tx, scope.tenant_id, todo.id)


def complete_plan_item(
    tx: Transaction, scope: Scope, turn_id: str, reference: str, outcome: str, status: Literal["completed", "canceled"]
) -> tuple[Todo, list[Todo]]:
    """End a todo. Returns it with the open todos that are left."""
    todo = get_plan_item(tx, scope, turn_id, reference)
    check_not_ended(todo)
    ended = todos.end_todo(tx, scope.tenant_id, todo.id, status, outcome)
    return ended, [row for row in todo_store.list_by_turn(tx, scope.tenant_id, turn_id) if not row.ended]


def start_next(tx: Transaction, scope: Scope, open_todos: list[Todo]) -> Todo | None:
    """Start the first pending todo, unless one is in progress already."""
    if not open_todos or any(todo.status == "in_progress" for todo in open_todos):
        return None
    return todos.start_todo(tx, scope.tenant_id, open_todos[0].id)


def get_plan_item(tx: Transaction, scope: Scope, turn_id: str, reference: str) -> Todo:
    """Find a row by its UUID or its number in this turn only. A row of another turn counts as not found."""
    try:
        name = str(UUID(reference))
    except ValueError:
        name = reference.removeprefix("#")
    plan = todo_store.list_by_turn(tx, scope.tenant_id, turn_id)
    todo = next((row for row in plan if name in (row.uuid, str(row.id))), None) or find_copy(tx, scope, plan, name)
    if todo is None:
        advice = "" if plan else " This turn has no plan: answer in words, or create a plan first."
        raise NotFound(f"Todo {reference[:80]!r} not found.{advice}")
    return todo


def find_copy(tx: Transaction, scope: Scope, plan: list[Todo], name: str) -> Todo | None:
    """Return the row that is the copy of the one with this name, for a fork whose messages know the original."""
    copy_id = fork_store.find_copy(tx, scope.tenant_id, scope.conversation_id, name) if plan else None
    return next((row for row in plan if row.id == copy_id), None)


def check_not_ended(todo: Todo, hint: str = "") -> None:
    if todo.ended:
        raise AlreadyEnded(f"Todo {todo.uuid} is already {STATUS_SPELLING[todo.status]}.{hint}")


def count_by_status(plan: list[Todo]) -> dict[str, Any]:
    by_status = {status: sum(todo.status == status for todo in plan) for status in STATUS_SPELLING}
    return {
        "total": len(plan),
        "pending": by_status["pending"],
        "inProgress": by_status["in_progress"],
        "completed": by_status["completed"],
        "cancelled": by_status["canceled"],
    }


# The items of a turn's plan, whose books the runtime keeps: made from the request, and completed by what the calls show.


RUNTIME_ACTOR: Final = "the runtime"
NO_TODO: Final = 0
PROVEN: Final = {"completed_by": "effect"}  # the data of a result that the calls of an agent prove
CUT_MARK: Final = "…"
ATTEMPTS: Final = 2  # contexts that an item has for itself
ONLY_ATTEMPTS: Final = 3  # the same for the only item of a request
BATCH: Final = 5  # items that share a context the first time
HOPELESS_CONTEXTS: Final = 5  # after so many without a success, the rest is not tried


class Item(NamedTuple):
    """One piece of work: an open item of the plan, or the whole request of a turn without a plan."""

    todo: Todo | None
    text: str
    finding: ItemFinding | None  # None if there is only the agent's word

    @property
    def id(self) -> int:
        return self.todo.id if self.todo else NO_TODO

    @property
    def is_impossible(self) -> bool:
        return self.finding is not None and self.finding.is_impossible


# The plan


def plan_request(tx: Transaction, scope: Scope, turn_id: str, request: str) -> list[Todo]:
    """Make the plan of a turn that has none, if its request clearly has several items."""
    introduction, items = split_request(request)
    if not items:
        return []
    plan = [PlanItem(to_subject(text), context=to_context(introduction, text)) for text in items]
    with act_as(tx, RUNTIME_ACTOR):
        return create_plan(tx, scope, turn_id, plan, source="request").todos


def to_subject(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SUBJECT_LIMIT else text[: SUBJECT_LIMIT - 1] + CUT_MARK


def to_context(introduction: str, text: str) -> str:
    """Return what an item needs beside its subject: the rest of a long text, or an introduction that concerns it."""
    if len(text) > SUBJECT_LIMIT:
        return text
    return introduction.rstrip(":.") if concerns_item(introduction, text) else ""


def get_item_text(todo: Todo) -> str:
    if not todo.description:
        return todo.subject
    return todo.description if todo.subject.endswith(CUT_MARK) else f"{todo.description}{INTRODUCTION_END}{todo.subject}"


# Ends of items


def judge_plan(plan: Sequence[Todo], work: Work, exists: Exists) -> list[Item]:
    """List the open items of a plan with what is known about each."""
    texts = {todo.id: get_item_text(todo) for todo in plan if todo.status != "canceled"}
    naming: dict[str, list[str]] = {}
    for text in texts.values():
        for path in list_paths(text):
            naming.setdefault(path, []).append(text)

    def judge(text: str) -> ItemFinding | None:
        others = {path: [other for other in naming[path] if other != text] for path in list_paths(text)}
        return judge_item(text, work, exists, {path: found for path, found in others.items() if found})

    return [Item(todo, texts[todo.id], judge(texts[todo.id])) for todo in plan if not todo.ended]


def settle_item(tx: Transaction, tenant_id: int, items: Iterable[Item], focus: Sequence[int] = (), answer: str = "") -> list[Item]:
    """Complete the items that the calls prove, and with an answer also those in focus that only words complete.

    An item with checks is left to them. Returns the open items.
    """
    open_items = []
    for item in items:
        is_done = item.finding.is_done if item.finding else bool(answer) and (not focus or item.id in focus)
        needs_words = item.finding is not None and asks_for_words(item.text) and not answer
        has_checks = item.todo is not None and bool(item.todo.checks)
        if is_done and not needs_words and not has_checks:
            complete_item(tx, tenant_id, item, item.finding.reason if item.finding else answer)
        else:
            open_items.append(item)
    return open_items


def complete_item(tx: Transaction, tenant_id: int, item: Item, outcome: str) -> None:
    if item.todo:
        completed_by: CompletedBy = "effect" if item.finding else "agent"
        with act_as(tx, RUNTIME_ACTOR):
            todos.end_todo(tx, tenant_id, item.todo.id, "completed", outcome[:TEXT_LIMIT], completed_by=completed_by)


# The next item


def choose_next(items: Sequence[Item], contexts: Sequence[Sequence[int]], *, in_batches: bool = True) -> list[Item]:
    """Choose the open items for the next context; none if nothing can succeed any more.

    `contexts` has the ids of the items of each context so far. In batches, items that were not tried yet share a context. Those
    that are still open afterwards get one each.
    """
    tried = {item_id for context in contexts for item_id in context}
    alone = Counter(context[0] for context in contexts if len(context) == 1)
    left = [item for item in items if alone[item.id] < (ATTEMPTS if item.todo else ONLY_ATTEMPTS) and not item.is_impossible]
    fresh = [item for item in left if item.id not in tried]
    if len(contexts) >= HOPELESS_CONTEXTS and tried <= {item.id for item in items}:
        return []
    return (fresh[:BATCH] if in_batches else fresh[:1]) or left[:1]


# A turn's list as a queue: add items at the end, remove items, complete the current one.


class ManagedQueue(NamedTuple):
    state: QueueState
    unknown: list[str]  # what was to be deleted and is not in the list


def manage(tx: Transaction, scope: Scope, turn_id: str, add: Any = None, delete: Any = None) -> ManagedQueue:
    """Add items, then delete items. Arguments that are not lists are ignored, because models send all sorts of values."""
    descriptions = parse_texts(add)
    conversation_id, rows = lock_plan(tx, scope.tenant_id, turn_id)
    check_room(sum(not row.ended for row in rows), len(descriptions))
    for description in descriptions:
        draft = Draft(description, conversation_id=conversation_id, turn_id=turn_id, agent_id=scope.agent_id)
        todos.add_todo(tx, scope.tenant_id, draft)
    state, unknown = load_queue_state(tx, scope.tenant_id, turn_id), []
    matched: dict[int, Todo] = {}
    for name in parse_texts(delete):
        items = match_items(state, {name, find_queue_copy(tx, scope, name)})
        matched |= {todo.id: todo for todo in items}
        unknown += [] if items else [name]
    for todo in matched.values():
        take_out(tx, scope.tenant_id, todo)
    emit_queue_at_commit(tx, scope.tenant_id, turn_id)  # a call that changed nothing emits the state too
    return ManagedQueue(load_queue_state(tx, scope.tenant_id, turn_id), unknown)


def take_out(tx: Transaction, tenant_id: int, todo: Todo) -> None:
    """Remove an item. Rows of a turn are never deleted: an open one is canceled, a done one stays done and is hidden."""
    if todo.ended:
        todo_store.dequeue(tx, tenant_id, todo)
    else:
        todos.end_todo(tx, tenant_id, todo.id, "canceled")


def complete_queue_item(tx: Transaction, scope: Scope, turn_id: str, todo_id: int, outcome: str | None = None) -> QueueState:
    """Complete an item that the assessor or its checks accepted, which makes the next one current. An ended item is not changed."""
    item = next((todo for todo in load_queue_state(tx, scope.tenant_id, turn_id).items if todo.id == todo_id), None)
    if item is not None and not item.ended:
        todos.end_todo(tx, scope.tenant_id, todo_id, "completed", outcome, completed_by="check")
    emit_queue_at_commit(tx, scope.tenant_id, turn_id)
    return load_queue_state(tx, scope.tenant_id, turn_id)


def parse_texts(argument: Any) -> list[str]:
    """Return the non-empty texts in a model's list, trimmed."""
    texts = [parse_text(item).strip() for item in argument] if isinstance(argument, list) else []
    return [text for text in texts if text]


def parse_text(value: Any) -> str:
    """Convert a text or a number to text. JSON has one number type, so 1.0 becomes "1". Other values become an empty text."""
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() else str(value) if isfinite(value) else ""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def find_queue_copy(tx: Transaction, scope: Scope, name: str) -> str:
    """Return the number of the copy of an item, for a fork whose messages know the originals; otherwise the name itself."""
    return str(fork_store.find_copy(tx, scope.tenant_id, scope.conversation_id, name) or name)


def match_items(state: QueueState, names: set[str]) -> list[Todo]:
    """Find the items given by id (the digits of the number), and the open items given by their exact description. A done item is
    never matched by description, because a model that repeats a description means the new item."""
    return [todo for todo in state.items if str(todo.id) in names or (not todo.ended and todo.subject in names)]


# Replaces a turn's whole list at once, as agents trained on other tools do, without losing what the ledger has recorded.


class ReplacementItem(NamedTuple):
    content: str
    status: Status


class ReplacedList(NamedTuple):
    rows: list[Todo]
    dropped: list[Todo]

    def as_json(self) -> dict[str, Any]:
        return {
            "todos": [{"id": row.id, "content": row.subject, "status": row.status} for row in self.rows],
            "canceled": [{"id": row.id, "content": row.subject} for row in self.dropped],
        }


def replace(tx: Transaction, scope: Scope, turn_id: str, items: list[ReplacementItem]) -> ReplacedList:
    """Replace the turn's list with this one, completely or not at all."""
    check_room(0, len(items))
    conversation_id, rows = lock_plan(tx, scope.tenant_id, turn_id)
    matches = match_rows(rows, items)
    drafts = [
        Draft(item.content, conversation_id=conversation_id, turn_id=turn_id, agent_id=scope.agent_id).checked()
        for index, item in enumerate(items)
        if index not in matches
    ]
    if drafts:
        check_room(sum(not row.ended for row in rows), len(drafts))
    added = iter(todos.append_checked(tx, scope.tenant_id, drafts) if drafts else ())
    listed = [matches.get(index) or next(added) for index in range(len(items))]
    row_ids = [row.id for row in listed]
    omitted_rows = [row for row in rows if row.id not in row_ids and not row.ended]
    changed = [(row, item.status) for row, item in zip(listed, items, strict=True) if row.status != item.status]
    set_statuses(tx, scope.tenant_id, [*changed, *((row, "canceled") for row in omitted_rows)])
    plan = {row.id: row for row in todo_store.list_by_turn(tx, scope.tenant_id, turn_id)}
    canceled = [plan[row.id] for row in omitted_rows]
    ordered = [plan.pop(todo_id) for todo_id in row_ids]
    numbered = renumber(tx, scope.tenant_id, [*ordered, *plan.values()])
    emit_queue_at_commit(tx, scope.tenant_id, turn_id)
    return ReplacedList(numbered[: len(row_ids)], canceled)


def match_rows(rows: list[Todo], items: list[ReplacementItem]) -> dict[int, Todo]:
    """Match the items with existing rows, by the items' indexes. A row that has already ended with the given status is preferred,
    so that it keeps its history. Otherwise the first row with the same text is used, open rows before ended ones."""
    free = sorted(rows, key=lambda row: (row.ended, row.status == "canceled"))
    matches: dict[int, Todo] = {}
    for may_change in (False, True):
        for index, (content, status) in enumerate(items):
            candidates = (
                row for row in free if row.subject == content.strip() and (may_change or (row.ended and row.status == status))
            )
            if index not in matches and (row := next(candidates, None)):
                matches[index] = row
                free.remove(row)
    return matches


def set_statuses(tx: Transaction, tenant_id: int, changed: list[tuple[Todo, Status]]) -> None:
    """Set the statuses of locked rows. Rows that become pending again come last, because each may move others."""
    forward = [(row, status) for row, status in changed if not row.ended and status != "pending"]
    locked_rows = todos.load_for_change(tx, tenant_id, [row for row, _ in forward])
    for locked, (_, new_status) in zip(locked_rows, forward, strict=True):
        todos.change_locked(tx, tenant_id, locked, Change(status=new_status))
    for row, status in changed:
        if row.ended and status != "pending":  # it is reopened first
            todos.change_todo(tx, tenant_id, row.id, Change(status="pending"))
        if row.ended or status == "pending":
            todos.change_todo(tx, tenant_id, row.id, Change(status=status))


# One open plan per conversation, for agents of other programs: their processes start and stop, and the plan is continued.


def find_open_plan(tx: Transaction, tenant_id: int, conversation_id: int) -> Turn | None:
    """Return the turn with the conversation's open plan, if there is one."""
    return conversation_store.find_open_plan(tx, tenant_id, conversation_id)


def is_drained(tx: Transaction, tenant_id: int, turn_id: str) -> bool:
    """Whether the plan had items, and all of them have ended."""
    items = todo_store.list_by_turn(tx, tenant_id, turn_id)
    return bool(items) and all(item.ended for item in items)


def continue_or_open(tx: Transaction, tenant_id: int, conversation_id: int) -> Turn:
    """Return the turn with the conversation's open plan. Without one, open a turn."""
    conversation_store.lock(tx, tenant_id, conversation_id)  # processes that begin at the same time share one plan
    return find_open_plan(tx, tenant_id, conversation_id) or conversations.open_turn(tx, tenant_id, conversation_id)


def begin_open_plan(tx: Transaction, tenant_id: int, conversation_id: int) -> Turn:
    """Return the turn for new items: the open plan, or a new one if everything in it has ended. Then its turn is finished."""
    turn = continue_or_open(tx, tenant_id, conversation_id)
    if not is_drained(tx, tenant_id, turn.id):
        return turn
    conversation_store.save_turn(tx, tenant_id, turn._replace(status="finished", outcome="drained", ended_at=tx.now))
    document = encode_json({"turn_id": turn.id, "outcome": "drained", "incomplete": []})
    tx.emit(Event(tenant_id, "turn_finished", document, conversation_id, turn.id))
    return conversations.open_turn(tx, tenant_id, conversation_id)
