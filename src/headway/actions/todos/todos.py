"""Todos: added, changed, ordered, completed with proof, and deleted, with their dependants."""

import os
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

from headway.actions.access import audit, quotas
from headway.actions.todos import finding
from headway.actions.todos import proof as proof_todo
from headway.actions.todos.turn_state import check_room, count_open_items, emit_queue_at_commit
from headway.ledger import cycles
from headway.ledger.errors import Conflict, Invalid, Leased, LeaseLost, NotFound, TurnRowsStay
from headway.ledger.events import build_moves_event, build_todo_event
from headway.ledger.scope import TENANT_WIDE
from headway.ledger.todo import (
    UNSET,
    Change,
    CompletedBy,
    Draft,
    Lease,
    Todo,
    Unset,
    check_not_already_ended,
    check_position,
    refuse_start_of_ended,
)
from headway.storage.stores import todo_leases as lease_store
from headway.storage.stores import todo_pages
from headway.storage.stores import todos as todo_store
from headway.storage.stores.todo_pages import TodoSummary
from headway.storage.transaction import Transaction, classify_actor

BATCH_LIMIT = 500
DEPENDENCY_LIMIT = 100
POSITIONED_LIMIT = 20


class Override(NamedTuple):
    """A person's reason to complete a todo without its checks."""

    reason: str = ""
    person: str = ""


NO_OVERRIDE = Override()


def add_todo(tx: Transaction, tenant_id: int, draft: Draft) -> Todo:
    proof_todo.refuse_completed(draft)
    draft = draft._replace(completed_by=classify_actor(tx))
    quotas.check_storage(tx, tenant_id)
    draft = resolve_list(tx, tenant_id, draft.checked())
    check_dependencies(tx, tenant_id, draft.depends_on)
    todo = todo_store.insert_todo(tx, tenant_id, draft, make_uuid())
    if draft.position is not None:
        todo = move_to_position(tx, tenant_id, todo, draft.position)
    tx.emit(build_todo_event(tenant_id, todo, "created"))
    emit_queue_at_commit(tx, tenant_id, todo.turn_id)
    return todo


def make_uuid() -> str:
    """Make a random UUID. Every todo needs one, and this is four times as fast as uuid4()."""
    digits = os.urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"


def add_many(tx: Transaction, tenant_id: int, drafts: list[Draft]) -> list[Todo]:
    """Add all todos or none."""
    if not 1 <= len(drafts) <= BATCH_LIMIT:
        raise Invalid(f"A batch must have 1 to {BATCH_LIMIT} todos; this one has {len(drafts)}.")
    check_positioned(sum(draft.position is not None for draft in drafts))
    if len({(draft.conversation_id, draft.turn_id) for draft in drafts}) == 1 and all(map(is_plain, drafts)):
        return append(tx, tenant_id, drafts)
    return [add_todo(tx, tenant_id, draft) for draft in drafts]


def is_plain(draft: Draft) -> bool:
    """Whether the todo can be appended together with others: it is pending, waits for no other and has no position."""
    return draft.status == "pending" and not draft.depends_on and draft.position is None


def append(tx: Transaction, tenant_id: int, drafts: list[Draft]) -> list[Todo]:
    """Append plain drafts to the list that they share."""
    drafts = [draft.checked() for draft in drafts]
    conversation_id = resolve_list(tx, tenant_id, drafts[0], len(drafts)).conversation_id
    return append_checked(tx, tenant_id, [draft._replace(conversation_id=conversation_id) for draft in drafts])


def append_checked(tx: Transaction, tenant_id: int, drafts: list[Draft]) -> list[Todo]:
    """Append checked, plain drafts to the list that they share. It exists and has room for them."""
    quotas.check_storage(tx, tenant_id)
    added = todo_store.insert_pending(tx, tenant_id, drafts, [make_uuid() for _ in drafts])
    for todo in added:
        tx.emit(build_todo_event(tenant_id, todo, "created"))
    emit_queue_at_commit(tx, tenant_id, added[0].turn_id)
    return added


def check_positioned(count: int) -> None:
    """Limit the todos with a position, because each may move a thousand others while other writers wait."""
    if count > POSITIONED_LIMIT:
        raise Invalid(f"At most {POSITIONED_LIMIT} todos in a batch may set a position; the others are appended in order.")


def change_todo(
    tx: Transaction,
    tenant_id: int,
    todo_id: int,
    changes: Change,
    lease_token: str | None = None,
    *,
    force: bool = False,
    override: Override = NO_OVERRIDE,
) -> Todo:
    """Apply the change. If nothing differs, nothing is stored or emitted.

    Completing a todo that has checks raises ChecksRequired, unless the transaction has their results or a person overrides them.
    """
    if changes.depends_on is not UNSET:
        todo_store.lock_graph(tx, tenant_id)  # before the todo, or two changes of dependencies would deadlock
    locked = get_for_change(tx, tenant_id, todo_id)
    return change_locked(tx, tenant_id, locked, changes, lease_token, force=force, override=override)


def change_locked(
    tx: Transaction,
    tenant_id: int,
    locked: "LockedTodo",
    changes: Change,
    lease_token: str | None = None,
    *,
    force: bool = False,
    override: Override = NO_OVERRIDE,
) -> Todo:
    """Apply the change to a todo that `get_for_change` has returned, and that nothing has changed since."""
    old, lease, dependants = locked
    overruled_lease = check_lease(tx, old, lease, lease_token, force=force)
    new = proof_todo.apply_proof(tx, old, changes.apply_to(old, tx.now), override.reason)
    if new.status == "completed" != old.status:
        new = new._replace(completed_by=proof_todo.name_completer(tx, new, changes.completed_by))
    if changes.depends_on is not UNSET:
        new = set_dependencies(tx, tenant_id, new, changes.depends_on)
    if changes.position is not UNSET and changes.position != old.position:
        new = move_to_position(tx, tenant_id, new, changes.position)
    elif new.status == "pending" != old.status:
        new = restore_position(tx, tenant_id, new)
    if new == old:
        return old
    if (new.subject, new.description, new.completion_criteria) != (old.subject, old.description, old.completion_criteria):
        quotas.check_storage(tx, tenant_id)
    new = new._replace(updated_at=tx.now)
    if new.proof == "overridden" != old.proof:
        proof_todo.override(tx, tenant_id, new, *override)
        proof = {"status": new.status, "proof": new.proof, "reason": override.reason}
        audit.record_in_audit(tx, tenant_id, "check.override", f"todo:{old.id}", {"status": old.status, "proof": old.proof}, proof)
    if overruled_lease:
        record_forced(tx, tenant_id, overruled_lease, old, new)
    todo_store.update_todo(tx, tenant_id, old, new, dependants)
    if lease is not None and new.status != "in_progress":
        lease_store.delete_lease(tx, tenant_id, old.id)
    tx.emit(build_todo_event(tenant_id, new, "updated", old))
    emit_queue_at_commit(tx, tenant_id, new.turn_id)
    return new


def start_todo(tx: Transaction, tenant_id: int, todo_id: int, lease_token: str | None = None, *, force: bool = False) -> Todo:
    """Start an open todo. Starting an ended one is an error, because the caller evidently does not know that it has ended."""
    locked = get_for_change(tx, tenant_id, todo_id)
    refuse_start_of_ended(locked.todo)
    return change_locked(tx, tenant_id, locked, Change(status="in_progress"), lease_token, force=force)


def end_todo(
    tx: Transaction,
    tenant_id: int,
    todo_id: int,
    status: Literal["completed", "canceled"],
    outcome: str | None = None,
    lease_token: str | None = None,
    *,
    force: bool = False,
    override: Override = NO_OVERRIDE,
    completed_by: CompletedBy | Unset = UNSET,
) -> Todo:
    """Complete or cancel a todo. Ending it a second time the same way is an error, because the caller evidently does not know.

    `completed_by` is for the runtime, which acts neither for the agent nor for a person.
    """
    locked = get_for_change(tx, tenant_id, todo_id)
    check_not_already_ended(locked.todo, status)
    changes = Change(status=status, outcome=UNSET if outcome is None else outcome, completed_by=completed_by)
    return change_locked(tx, tenant_id, locked, changes, lease_token, force=force, override=override)


def remove_todo(tx: Transaction, tenant_id: int, todo_id: int, lease_token: str | None = None, *, force: bool = False) -> Todo:
    todo, lease, dependant_ids = get_for_change(tx, tenant_id, todo_id)
    if todo.turn_id is not None:
        raise TurnRowsStay
    overruled_lease = check_lease(tx, todo, lease, lease_token, force=force)
    proof_todo.refuse_drop(tx, todo)
    proof_todo.refuse_evasion(tx, todo.id, todo.checks, "delete it")
    if overruled_lease:
        record_forced(tx, tenant_id, overruled_lease, todo, None)
    todo_store.delete_todo(tx, tenant_id, todo)
    tx.emit(build_todo_event(tenant_id, todo, "deleted", todo))
    for dependant in filter(None, (todo_store.find_todo(tx, tenant_id, dependant_id) for dependant_id in dependant_ids)):
        tx.emit(build_todo_event(tenant_id, dependant, "updated", dependant))  # it has one dependency less
        emit_queue_at_commit(tx, tenant_id, dependant.turn_id)
    return todo


def get_todo(tx: Transaction, tenant_id: int, todo_id: int) -> Todo:
    todo = todo_store.find_todo(tx, tenant_id, todo_id)
    if todo is None:
        raise NotFound(f"No todo {todo_id}.")
    return todo


def get_locked_todo(tx: Transaction, tenant_id: int, todo_id: int) -> Todo:
    todo = todo_store.find_locked_todo(tx, tenant_id, todo_id)
    if todo is None:
        raise NotFound(f"No todo {todo_id}.")
    return todo


class LockedTodo(NamedTuple):
    todo: Todo
    lease: Lease | None
    dependants: list[int]  # the todos that wait for it


def get_for_change(tx: Transaction, tenant_id: int, todo_id: int) -> LockedTodo:
    """Lock the todo, and read what a change of it needs, in one round trip."""
    rows, leases, dependants = tx.fetch(
        todo_store.build_find_locked(tx, tenant_id, todo_id),
        lease_store.build_find(tenant_id, todo_id),
        todo_store.build_list_dependants(tenant_id, todo_id),
    )
    if not rows:
        raise NotFound(f"No todo {todo_id}.")
    lease = lease_store.load_lease(tx, leases[0]) if leases else None
    return LockedTodo(todo_store.TODOS.load(rows[0]), lease, [int(row[0]) for row in dependants])


def load_for_change(tx: Transaction, tenant_id: int, rows: Sequence[Todo]) -> list[LockedTodo]:
    """Read what changes of these todos need besides their rows, which this transaction has locked and read, in one round trip."""
    if not rows:
        return []
    ids = [row.id for row in rows]
    leases, edges = tx.fetch(lease_store.build_find(tenant_id, *ids), todo_store.build_list_dependants(tenant_id, *ids))
    leases_by_id = {int(row[0]): lease_store.load_lease(tx, row) for row in leases}
    dependants: dict[int, list[int]] = {}
    for dependant, todo_id in edges:
        dependants.setdefault(int(todo_id), []).append(int(dependant))
    return [LockedTodo(row, leases_by_id.get(row.id), dependants.get(row.id, [])) for row in rows]


def move_to_position(tx: Transaction, tenant_id: int, todo: Todo, position: int) -> Todo:
    """Move the todo to a position in its list. Rows in the way move down, with one event for all of them. An ended todo only
    takes the number, without moving others."""
    check_position(position)
    moved = {} if todo.ended else todo_store.make_room(tx, tenant_id, todo, position)
    if moved:
        tx.emit(build_moves_event(tenant_id, todo, moved, tx.now))
    todo_store.save_positions(tx, tenant_id, {todo.id: position})
    return todo._replace(position=position)


def restore_position(tx: Transaction, tenant_id: int, todo: Todo) -> Todo:
    """Return a todo that is pending again to its old position, or to the end if too many rows would have to move."""
    try:
        return move_to_position(tx, tenant_id, todo, todo.position)
    except Invalid:
        return todo._replace(position=todo_store.take_last_position(tx, tenant_id, todo))


def set_dependencies(tx: Transaction, tenant_id: int, todo: Todo, depends_on: tuple[int, ...]) -> Todo:
    """Replace the todo's dependencies. The caller must hold the lock on the graph."""
    dependency_ids = tuple(sorted(set(depends_on)))
    check_dependencies(tx, tenant_id, dependency_ids)
    edges = todo_store.load_reachable_edges(tx, tenant_id, dependency_ids) if dependency_ids else {}
    cycles.check_acyclic({**edges, todo.id: list(dependency_ids)})
    todo_store.replace_edges(tx, tenant_id, todo.id, dependency_ids)
    return todo._replace(depends_on=dependency_ids)


def resolve_list(tx: Transaction, tenant_id: int, draft: Draft, count: int = 1) -> Draft:
    """Check that the draft's conversation and turn exist in this tenant and belong together. A turn determines the conversation."""
    if draft.turn_id is not None:
        owner = finding.get_turn(tx, tenant_id, draft.turn_id).conversation_id
        if draft.conversation_id not in (TENANT_WIDE, owner):
            raise Conflict(f"Turn {draft.turn_id} belongs to conversation {owner}, not to {draft.conversation_id}.")
        check_room(count_open_items(tx, tenant_id, draft.turn_id), count)
        return draft._replace(conversation_id=owner)
    if draft.conversation_id != TENANT_WIDE:
        finding.get_conversation(tx, tenant_id, draft.conversation_id)
    return draft


def check_dependencies(tx: Transaction, tenant_id: int, depends_on: tuple[int, ...]) -> None:
    if not depends_on:
        return
    if len(depends_on) > DEPENDENCY_LIMIT:
        raise Invalid(f"A todo can wait for at most {DEPENDENCY_LIMIT} others.")
    missing = set(depends_on) - todo_store.lock_existing(tx, tenant_id, depends_on)
    if missing:
        raise NotFound(f"No todo {min(missing)}.")


def check_lease(tx: Transaction, todo: Todo, lease: Lease | None, token: str | None, *, force: bool) -> Lease | None:
    """Reject writes of an owner whose lease was lost, and writes without a token while another agent holds the lease. With `force`,
    return the lease that would have been in the way, if there is one."""
    if force:
        return lease if lease is not None and lease.expires_at > tx.now and lease.token != token else None
    if token is not None:
        if lease is None or lease.token != token:
            raise LeaseLost
    elif lease is not None and lease.expires_at > tx.now:
        raise Leased(f"Agent {lease.agent_id!r} holds a lease on todo {todo.id}; pass its lease token, or force the change.")
    return None


def record_forced(tx: Transaction, tenant_id: int, lease: Lease, old: Todo, new: Todo | None) -> None:
    """Record a change of a todo that another agent had leased: the fields that differ, or the deletion."""
    before, after = old.as_json(), new.as_json() if new else None
    changed = [name for name in before if name != "updated_at" and (after is None or before[name] != after[name])]
    held = {"agent_id": lease.agent_id, "lease_expires_at": lease.expires_at // 1000}
    audit.record_in_audit(
        tx,
        tenant_id,
        "todo.force",
        f"todo:{old.id}",
        {**{name: before[name] for name in changed}, "lease": held},
        after and {name: after[name] for name in changed},
    )


# The dependencies of a todo in both directions, with what a person needs to recognise them.


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
    get_todo(tx, tenant_id, todo_id)
    waiting = todo_pages.list_waiting_todos(tx, tenant_id, todo_id, WAITING_LIMIT + 1)
    waits_for = todo_pages.list_waited_for(tx, tenant_id, todo_id)
    return TodoNeighbours(waits_for, waiting[:WAITING_LIMIT], len(waiting) > WAITING_LIMIT)


# The order of todos: putting one directly before or after another.


GAP: Final = 1_000  # left free in a list that is too long to move its todos by one


def place_beside(
    tx: Transaction, tenant_id: int, todo_id: int, changes: Change, before: int | None = None, after: int | None = None
) -> Change:
    """Return the change with the position directly before or after another todo. Todos in the way are moved."""
    neighbour_id = before or after
    if neighbour_id is None:
        return changes
    if (before and after) or changes.position is not UNSET:
        raise Invalid("Give only one of position, before and after.")
    if neighbour_id == todo_id:
        raise Invalid(f"Todo {todo_id} cannot be put beside itself.")
    rows = {one: get_locked_todo(tx, tenant_id, one) for one in sorted((todo_id, neighbour_id))}
    return changes._replace(position=find_position(tx, tenant_id, rows[todo_id], rows[neighbour_id], is_before=before is not None))


def find_position(tx: Transaction, tenant_id: int, todo: Todo, neighbour: Todo, *, is_before: bool) -> int:
    """Return a free position beside the neighbour. If the neighbour is in another list, take its number: positions are per list."""
    if (todo.conversation_id, todo.turn_id) != (neighbour.conversation_id, neighbour.turn_id):
        return neighbour.position + (0 if is_before or todo.id > neighbour.id else 1)
    todo_store.lock_list(tx, tenant_id, todo.conversation_id, todo.turn_id)
    beside = neighbour.position, neighbour.id
    if is_before:
        found = todo_store.find_position_before(tx, tenant_id, todo, beside)
        low, high = -1 if found is None else found, neighbour.position
    else:
        found = todo_store.find_position_after(tx, tenant_id, todo, beside)
        if found is None:
            return neighbour.position + 1
        low, high = neighbour.position, found
    return (low + high) // 2 if high - low > 1 else make_room(tx, tenant_id, todo, high)


def make_room(tx: Transaction, tenant_id: int, todo: Todo, position: int) -> int:
    """Free a position: move the todos behind it by one or, if they are too many, by a gap that later moves can use."""
    try:
        moved = todo_store.make_room(tx, tenant_id, todo, position)
    except Invalid:
        moved = todo_store.spread(tx, tenant_id, todo, position, GAP)
        position += GAP // 2
    if moved:
        tx.emit(build_moves_event(tenant_id, todo, moved, tx.now))
    return position


# Edits of a todo's checks, and completions that override them.


def build_override(reason: str | None, changes: Change, person: str) -> Override:
    """Return a person's reason to complete a todo without its checks. Raises Invalid if the change does not complete it."""
    if reason is None:
        return NO_OVERRIDE
    if changes.status != "completed":
        raise Invalid("override is only accepted with the status completed.")
    return Override(proof_todo.check_override(reason), person)
