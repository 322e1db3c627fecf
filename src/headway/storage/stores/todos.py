"""Rows of todos, and their positions in a list."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, takewhile
from operator import itemgetter

from headway.ledger.check import Proof
from headway.ledger.errors import Invalid
from headway.ledger.tenancy import PlanSource
from headway.ledger.text import count_bytes
from headway.ledger.todo import POSITION_LIMIT, Draft, Status, Todo, compute_timestamps
from headway.storage import logged_transaction
from headway.storage.columns import Column, Columns, split_ids
from headway.storage.stores import board
from headway.storage.transaction import Query, Transaction, classify_actor

TODOS = Columns(
    Todo,
    fixed=("id", "uuid", "conversation_id", "turn_id"),
    # Aggregated into one text, so that a list takes one query.
    depends_on=Column(
        sql="""(SELECT string_agg(CAST(e.depends_on AS TEXT), ',') FROM todo_edges e
        WHERE e.tenant_id = todos.tenant_id AND e.todo_id = todos.id)""",
        decode=split_ids,
    ),
)
# SQL: whether a row is not part of a deleted conversation.
TODO_IS_SHOWN = """NOT EXISTS (SELECT 1 FROM conversations hidden WHERE hidden.tenant_id = todos.tenant_id
    AND hidden.id = todos.conversation_id AND hidden.deleted_at <> 0)"""
TODO_LIST_IS_SHOWN = """NOT EXISTS (SELECT 1 FROM conversations hidden WHERE hidden.tenant_id = todo_lists.tenant_id
    AND hidden.id = todo_lists.conversation_id AND hidden.deleted_at <> 0)"""
SELECT = f"SELECT {TODOS.selected} FROM todos"
UPDATE = f"UPDATE todos SET {TODOS.assignments} WHERE tenant_id = ? AND id = ?"

UPDATE_COUNTERS = """UPDATE todo_lists SET pending = pending + ?, in_progress = in_progress + ?, completed = completed + ?,
    canceled = canceled + ? WHERE tenant_id = ? AND conversation_id = ? AND turn_id = ?"""

SHIFT_LIMIT = 1_000  # how many rows may move to make room for one
IDS_PER_QUERY = 500  # databases limit the parameters of a statement


@cache
def build_append_to_list(status: Status, count: int = 1) -> str:
    """Build the statement that assigns the next positions and counts the new rows, so that two callers never get the same position.
    An ended row does not use up a position: it shares the number of the next open row, which keeps it in order of arrival."""
    places = count if status in ("pending", "in_progress") else 0
    return f"""INSERT INTO todo_lists AS l (tenant_id, conversation_id, turn_id, plan_source, next_position, {status})
        VALUES (?, ?, ?, ?, ? + {places}, {count}) ON CONFLICT (tenant_id, conversation_id, turn_id)
        DO UPDATE SET next_position = l.next_position + {places}, {status} = l.{status} + {count}
        RETURNING next_position - {places}"""


def insert_todo(tx: Transaction, tenant_id: int, draft: Draft, uuid: str) -> Todo:
    """Append a draft to its list."""
    query = build_take_positions(tenant_id, draft, classify_actor(tx))
    row = tx.one(query.sql, *query.parameters)
    assert row is not None
    todo = build_todo(draft, uuid, int(row[0]), tx.now)
    blocked_by = lock_and_count_open(tx, tenant_id, draft.depends_on) if draft.depends_on else 0
    todo = logged_transaction.insert(tx, tenant_id, "todos", TODOS, todo, blocked_by=blocked_by)
    for other in draft.depends_on:
        tx.run("INSERT INTO todo_edges (todo_id, depends_on, tenant_id) VALUES (?, ?, ?)", todo.id, other, tenant_id)
    tx.count_stored(tenant_id, measure(todo))
    return todo


def insert_pending(
    tx: Transaction, tenant_id: int, drafts: Sequence[Draft], uuids: Sequence[str], plan_source: PlanSource | None = None
) -> list[Todo]:
    """Append pending drafts of one list, without dependencies, in three statements. `plan_source` is the source of
    the plan that begins with them, by default the actor."""
    positions, ids = tx.fetch(
        build_take_positions(tenant_id, drafts[0], plan_source or classify_actor(tx), len(drafts)),
        logged_transaction.build_take(tenant_id, "todos", len(drafts)),
    )
    position = int(positions[0][0])
    todo_id = int(ids[0][0]) if ids else logged_transaction.take(tx, tenant_id, "todos", len(drafts))
    todos = [
        build_todo(draft, uuid, position + offset, tx.now)._replace(id=todo_id + offset)
        for offset, (draft, uuid) in enumerate(zip(drafts, uuids, strict=True))
    ]
    rows = ", ".join([f"({TODOS.marks}, ?, 0)"] * len(todos))
    sql = f"INSERT INTO todos ({TODOS.stored}, tenant_id, blocked_by) VALUES {rows}"
    tx.run(sql, *chain.from_iterable((*TODOS.dump(todo), tenant_id) for todo in todos))
    tx.count_stored(tenant_id, sum(map(measure, todos)))
    return todos


def build_take_positions(tenant_id: int, draft: Draft, plan_source: PlanSource, count: int = 1) -> Query:
    """Build the statement that counts new rows in the draft's list, and returns the position of the first. The first rows of a
    turn's plan decide its source."""
    # A turn's plan counts from 0, other lists from 1.
    list_values = (draft.turn_id, plan_source, 0) if draft.turn_id else ("", None, 1)
    return Query(build_append_to_list(draft.status, count), (tenant_id, draft.conversation_id, *list_values))


# A todo has the fields of its draft. The fields that are named here are filled in.
FILLED_IN = (
    "id",
    "uuid",
    "position",
    "created_at",
    "updated_at",
    "started_at",
    "completed_at",
    "proof",
    "completed_by",
    "depends_on",
)
INDEXES = {field: index for index, field in enumerate((*Draft._fields, *FILLED_IN))}
arrange = itemgetter(*(INDEXES[field] for field in Todo._fields))


def build_todo(draft: Draft, uuid: str, position: int, now: int) -> Todo:
    """Build the todo of a draft, without its id."""
    proof: Proof = "unproven" if draft.checks else "none"
    completed_by = draft.completed_by if draft.status == "completed" else None
    filled_in = (0, uuid, position, now, now, *compute_timestamps(draft, now), proof, completed_by, tuple(sorted(draft.depends_on)))
    return Todo._make(arrange(draft + filled_in))


def measure(todo: Todo) -> int:
    """Count the bytes of the todo's texts."""
    return count_bytes(todo.subject, todo.description, todo.completion_criteria, todo.outcome, todo.checks)


def find_todo(tx: Transaction, tenant_id: int, todo_id: int) -> Todo | None:
    return TODOS.one(tx, f"{SELECT} WHERE tenant_id = ? AND id = ?", tenant_id, todo_id)


def find_locked_todo(tx: Transaction, tenant_id: int, todo_id: int) -> Todo | None:
    """Return the todo, locked so that no other transaction can change it before this one ends."""
    rows = tx.fetch(build_find_locked(tx, tenant_id, todo_id))[0]
    return TODOS.load(rows[0]) if rows else None


def build_find_locked(tx: Transaction, tenant_id: int, todo_id: int) -> Query:
    return Query(f"{SELECT} WHERE tenant_id = ? AND id = ?{tx.dialect.for_update}", (tenant_id, todo_id))


SELECT_OF_TURN = f"{SELECT} WHERE tenant_id = ? AND turn_id = ? ORDER BY position, id"
QUEUE_OF_TURN = f"{SELECT} WHERE tenant_id = ? AND turn_id = ? AND status <> 'canceled' AND dequeued = 0 ORDER BY position, id"
OPEN_OF_TURN = f"""{SELECT} WHERE tenant_id = ? AND turn_id = ? AND status IN ('in_progress', 'pending')
    ORDER BY status, position, id LIMIT ?"""


def list_by_turn(tx: Transaction, tenant_id: int, turn_id: str) -> list[Todo]:
    """List a turn's complete plan, in order."""
    return list(map(TODOS.load, tx.fetch(build_list_by_turn(tenant_id, turn_id))[0]))


def build_list_by_turn(tenant_id: int, turn_id: str) -> Query:
    return Query(SELECT_OF_TURN, (tenant_id, turn_id))


def list_of_conversation(tx: Transaction, tenant_id: int, conversation_id: int, limit: int) -> list[Todo]:
    """List the newest todos of a conversation, in all its lists."""
    sql = f"{SELECT} WHERE tenant_id = ? AND conversation_id = ? ORDER BY id DESC LIMIT ?"
    return TODOS.all(tx, sql, tenant_id, conversation_id, limit)


def build_list_open_by_turn(tenant_id: int, turn_id: str, limit: int) -> Query:
    """Build the query for the open rows of a turn's plan, rows in progress first."""
    return Query(OPEN_OF_TURN, (tenant_id, turn_id, limit))


def build_lock_by_turn(tx: Transaction, tenant_id: int, turn_id: str) -> Query:
    """Build the query for a turn's plan, locked so that no other transaction can change its rows before this one ends."""
    return Query(SELECT_OF_TURN + tx.dialect.for_update, (tenant_id, turn_id))


def build_queue_of_turn(tenant_id: int, turn_id: str) -> Query:
    """Build the query for the turn's rows, except rows deleted from its queue: canceled while open, or dequeued when done."""
    return Query(QUEUE_OF_TURN, (tenant_id, turn_id))


def dequeue(tx: Transaction, tenant_id: int, todo: Todo) -> None:
    """Remove a done row from the queue. It keeps its status, and returns to the queue when it is reopened."""
    tx.run("UPDATE todos SET dequeued = 1 WHERE tenant_id = ? AND id = ? AND completed_at <> 0", tenant_id, todo.id)


def find_uuids(tx: Transaction, tenant_id: int, uuids: Sequence[str]) -> dict[str, int]:
    """Return the UUIDs that the tenant already has, with their ids."""
    ids: dict[str, int] = {}
    for start in range(0, len(uuids), IDS_PER_QUERY):
        batch = uuids[start : start + IDS_PER_QUERY]
        marks = ", ".join("?" * len(batch))
        rows = tx.all(f"SELECT uuid, id FROM todos WHERE tenant_id = ? AND uuid IN ({marks})", tenant_id, *batch)
        ids |= {str(uuid): int(todo_id) for uuid, todo_id in rows}
    return ids


def update_todo(tx: Transaction, tenant_id: int, old: Todo, new: Todo, dependants: Sequence[int] | None = None) -> None:
    """Store the new values and update the counters. Dependencies are updated by `replace_edges`.

    `dependants` are the todos that wait for this one, if the caller has read them after it locked the todo: from then on, no other
    todo begins to wait for it."""
    tx.run(UPDATE, *TODOS.dump_changed(new), tenant_id, new.id)
    tx.count_stored(tenant_id, measure(new) - measure(old))
    # Always update todos before their list; otherwise one transaction that ends a todo and another that changes its dependant would
    # deadlock.
    if new.ended != old.ended:
        if dependants is None:
            dependants = list_dependants(tx, tenant_id, new.id)
        update_blocked_by(tx, tenant_id, dependants, -1 if new.ended else 1)
    if old.ended and not new.ended:
        tx.run("UPDATE todos SET dequeued = 0 WHERE tenant_id = ? AND id = ? AND dequeued = 1", tenant_id, new.id)
    if new.status != old.status:
        update_counters(tx, tenant_id, new, {old.status: -1, new.status: 1})


def delete_todo(tx: Transaction, tenant_id: int, todo: Todo) -> None:
    if not todo.ended:
        update_blocked_by(tx, tenant_id, list_dependants(tx, tenant_id, todo.id), -1)
    update_counters(tx, tenant_id, todo, {todo.status: -1})
    tx.run("DELETE FROM todos WHERE tenant_id = ? AND id = ?", tenant_id, todo.id)
    tx.count_stored(tenant_id, -measure(todo))
    board.delete_comments_of(tx, tenant_id, todo.id)


def update_counters(tx: Transaction, tenant_id: int, todo: Todo, by: dict[Status, int]) -> None:
    steps = (by.get("pending", 0), by.get("in_progress", 0), by.get("completed", 0), by.get("canceled", 0))
    tx.run(UPDATE_COUNTERS, *steps, tenant_id, todo.conversation_id, todo.turn_id or "")


def make_room(tx: Transaction, tenant_id: int, todo: Todo, position: int) -> dict[int, int]:
    """Free a position in the todo's list. If it is taken, that row and the unbroken run behind it move down by one. Returns the new
    positions of the moved rows."""
    lock_list(tx, tenant_id, todo.conversation_id, todo.turn_id)
    turn, turn_values = ("turn_id = ?", (todo.turn_id,)) if todo.turn_id else ("turn_id IS NULL", ())
    rows = tx.all(
        f"""SELECT id, position FROM todos WHERE tenant_id = ? AND conversation_id = ? AND status = 'pending'
            AND completed_at = 0 AND position >= ? AND id <> ? AND {turn} ORDER BY position, id LIMIT ?""",
        tenant_id,
        todo.conversation_id,
        position,
        todo.id,
        *turn_values,
        SHIFT_LIMIT + 1,
    )
    unbroken = takewhile(lambda numbered: numbered[1][1] <= numbered[0], enumerate(rows, position))
    run = [int(todo_id) for _, (todo_id, _) in unbroken]
    if len(run) > SHIFT_LIMIT:
        raise Invalid(f"More than {SHIFT_LIMIT:,} todos would have to move; choose a position closer to the end.")
    positions = {todo_id: new_position for new_position, todo_id in enumerate(run, position + 1)}
    save_positions(tx, tenant_id, positions)
    reserve_positions(tx, tenant_id, todo, position + len(run))
    return positions


def save_positions(tx: Transaction, tenant_id: int, positions: Mapping[int, int]) -> None:
    sql = "UPDATE todos SET position = ?, updated_at = ? WHERE tenant_id = ? AND id = ?"
    for todo_id, position in positions.items():
        tx.run(sql, position, tx.now, tenant_id, todo_id)


def take_last_position(tx: Transaction, tenant_id: int, todo: Todo) -> int:
    """Take the position after all others in the todo's list."""
    row = tx.one(
        """UPDATE todo_lists SET next_position = next_position + 1
           WHERE tenant_id = ? AND conversation_id = ? AND turn_id = ? RETURNING next_position - 1""",
        tenant_id,
        todo.conversation_id,
        todo.turn_id or "",
    )
    assert row is not None
    return int(row[0])


def build_lock_turn_list(tx: Transaction, tenant_id: int, turn_id: str) -> Query:
    """Build the statement that locks the list of a turn, like `lock_list`."""
    sql = f"""SELECT 1 FROM todo_lists WHERE tenant_id = ? AND turn_id = ?
        AND conversation_id = (SELECT conversation_id FROM turns WHERE tenant_id = ? AND id = ?){tx.dialect.for_update}"""
    return Query(sql, (tenant_id, turn_id, tenant_id, turn_id))


def lock_list(tx: Transaction, tenant_id: int, conversation_id: int, turn_id: str | None) -> None:
    """Lock a list before assigning positions or reporting all of it; otherwise two todos could get the same position."""
    sql = "SELECT 1 FROM todo_lists WHERE tenant_id = ? AND conversation_id = ? AND turn_id = ?"
    tx.run(sql + tx.dialect.for_update, tenant_id, conversation_id, turn_id or "")


def reserve_positions(tx: Transaction, tenant_id: int, todo: Todo, position: int) -> None:
    """Make later additions to the todo's list come after this position."""
    tx.run(
        """UPDATE todo_lists SET next_position = ?
           WHERE tenant_id = ? AND conversation_id = ? AND turn_id = ? AND next_position <= ?""",
        position + 1,
        tenant_id,
        todo.conversation_id,
        todo.turn_id or "",
        position,
    )


# Dependencies


def lock_and_count_open(tx: Transaction, tenant_id: int, todo_ids: Iterable[int]) -> int:
    """Count how many of the todos have not ended, and lock all of them so that none can end before this transaction does."""
    rows = (
        tx.one(f"SELECT completed_at FROM todos WHERE tenant_id = ? AND id = ?{tx.dialect.for_update}", tenant_id, todo_id)
        for todo_id in sorted(todo_ids)
    )
    return sum(row is not None and row[0] == 0 for row in rows)


def lock_existing(tx: Transaction, tenant_id: int, todo_ids: Sequence[int]) -> set[int]:
    """Return which of the todos exist, locked so that none can be deleted before this transaction ends."""
    marks = ", ".join("?" * len(todo_ids))
    sql = f"SELECT id FROM todos WHERE tenant_id = ? AND id IN ({marks}) ORDER BY id{tx.dialect.for_update}"
    return {int(row[0]) for row in tx.all(sql, tenant_id, *todo_ids)}


def replace_edges(tx: Transaction, tenant_id: int, todo_id: int, depends_on: Sequence[int]) -> None:
    lock_and_count_open(
        tx, tenant_id, list_dependencies(tx, tenant_id, todo_id)
    )  # so that ending one of these cannot decrement the new count
    blocked_by = lock_and_count_open(tx, tenant_id, depends_on)
    tx.run("DELETE FROM todo_edges WHERE tenant_id = ? AND todo_id = ?", tenant_id, todo_id)
    for other in depends_on:
        tx.run("INSERT INTO todo_edges (todo_id, depends_on, tenant_id) VALUES (?, ?, ?)", todo_id, other, tenant_id)
    tx.run("UPDATE todos SET blocked_by = ? WHERE tenant_id = ? AND id = ?", blocked_by, tenant_id, todo_id)


def lock_graph(tx: Transaction, tenant_id: int) -> None:
    """Allow one change of dependencies per tenant at a time, because two harmless changes could form a cycle together."""
    tx.run(f"SELECT id FROM tenants WHERE id = ?{tx.dialect.for_update}", tenant_id)


def load_reachable_edges(tx: Transaction, tenant_id: int, start: Sequence[int]) -> dict[int, list[int]]:
    """Return every edge that is reachable from these todos."""
    marks = ", ".join("(CAST(? AS BIGINT))" for _ in start)
    rows = tx.all(
        f"""WITH RECURSIVE below (id) AS (
                VALUES {marks}
                UNION SELECT e.depends_on FROM todo_edges e JOIN below b ON e.todo_id = b.id WHERE e.tenant_id = ?)
            SELECT e.todo_id, e.depends_on FROM todo_edges e JOIN below b ON e.todo_id = b.id WHERE e.tenant_id = ?""",
        *start,
        tenant_id,
        tenant_id,
    )
    edges: dict[int, list[int]] = {}
    for todo_id, depends_on in rows:
        edges.setdefault(int(todo_id), []).append(int(depends_on))
    return edges


def list_dependencies(tx: Transaction, tenant_id: int, todo_id: int) -> list[int]:
    rows = tx.all("SELECT depends_on FROM todo_edges WHERE tenant_id = ? AND todo_id = ?", tenant_id, todo_id)
    return [int(row[0]) for row in rows]


def list_dependants(tx: Transaction, tenant_id: int, todo_id: int) -> list[int]:
    return [int(row[0]) for row in tx.fetch(build_list_dependants(tenant_id, todo_id))[0]]


def build_list_dependants(tenant_id: int, *todo_ids: int) -> Query:
    """Build the query for the todos that wait for one of these, each with the one that it waits for."""
    marks = ", ".join("?" * len(todo_ids))
    sql = f"SELECT todo_id, depends_on FROM todo_edges WHERE tenant_id = ? AND depends_on IN ({marks}) ORDER BY todo_id"
    return Query(sql, (tenant_id, *todo_ids))


def update_blocked_by(tx: Transaction, tenant_id: int, dependants: Iterable[int], step: int) -> None:
    for dependant in dependants:
        tx.run("UPDATE todos SET blocked_by = blocked_by + ? WHERE tenant_id = ? AND id = ?", step, tenant_id, dependant)


# SQL for the order of a list of todos: which ones are beside a place, and how room is made in a long list.


SPREAD_LIMIT = 50_000  # how many todos may move at once


def build_list_condition(todo: Todo) -> tuple[str, tuple[int | str, ...]]:
    """Build the condition for the pending todos of a todo's list, without that todo. It follows that on the tenant."""
    where = "conversation_id = ? AND status = 'pending' AND completed_at = 0 AND id <> ?"
    if todo.turn_id is None:
        return f"{where} AND turn_id IS NULL", (todo.conversation_id, todo.id)
    return f"{where} AND turn_id = ?", (todo.conversation_id, todo.id, todo.turn_id)


def find_position_before(tx: Transaction, tenant_id: int, todo: Todo, key: tuple[int, int]) -> int | None:
    """Return the position of the last todo of the list before a (position, id)."""
    where, values = build_list_condition(todo)
    sql = f"""SELECT position FROM todos WHERE tenant_id = ? AND {where} AND (position, id) < (?, ?)
        ORDER BY position DESC, id DESC LIMIT 1"""
    row = tx.one(sql, tenant_id, *values, *key)
    return int(row[0]) if row else None


def find_position_after(tx: Transaction, tenant_id: int, todo: Todo, key: tuple[int, int]) -> int | None:
    """Return the position of the first todo of the list after a (position, id)."""
    where, values = build_list_condition(todo)
    sql = f"SELECT position FROM todos WHERE tenant_id = ? AND {where} AND (position, id) > (?, ?) ORDER BY position, id LIMIT 1"
    row = tx.one(sql, tenant_id, *values, *key)
    return int(row[0]) if row else None


def spread(tx: Transaction, tenant_id: int, todo: Todo, position: int, gap: int) -> dict[int, int]:
    """Move all todos of the list from a position on by a gap, in one statement. Returns their new positions."""
    where, values = build_list_condition(todo)
    sql = f"SELECT COUNT(*), MAX(position) FROM todos WHERE tenant_id = ? AND {where} AND position >= ?"
    counted = tx.one(sql, tenant_id, *values, position)
    assert counted is not None
    count, last = int(counted[0]), int(counted[1] or 0) + gap
    if count > SPREAD_LIMIT or last > POSITION_LIMIT:
        raise Invalid(f"{count:,} todos would have to move; choose a place closer to the end.")
    sql = f"""UPDATE todos SET position = position + ?, updated_at = ? WHERE tenant_id = ? AND {where} AND position >= ?
        RETURNING id, position"""
    rows = tx.all(sql, gap, tx.now, tenant_id, *values, position)
    reserve_positions(tx, tenant_id, todo, last)
    return {int(todo_id): int(moved_to) for todo_id, moved_to in rows}
