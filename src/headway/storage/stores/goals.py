"""Rows of goals, of their sub-goals and journals, and of who pursues them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from headway.ledger.goal import DECISION_KINDS, STATUSES, Experience, Goal, GoalFilter, GoalSort, JournalEntry, SubGoal, SubGoalMode
from headway.ledger.text import MAX_INTEGER
from headway.storage import logged_transaction
from headway.storage.columns import Column, Columns, split_ids
from headway.storage.transaction import Transaction

GOALS = Columns(
    Goal,
    fixed=(
        *("id", "tenant_id", "source", "evidence", "created_at", "forked_from", "fork_at", "repeat_of"),
        *("pending", "in_progress", "completed", "failed", "skipped", "in_plan", "done"),  # see UPDATE_COUNTERS
    ),
)
SELECT = f"SELECT {GOALS.selected} FROM goals"
SELECT_WITH_COST = f"""SELECT {GOALS.selected},
    (SELECT SUM(cost) FROM runs WHERE runs.tenant_id = goals.tenant_id AND runs.goal_id = goals.id)
    FROM goals WHERE tenant_id = ? AND id = ?"""
UPDATE = f"UPDATE goals SET {GOALS.assignments} WHERE tenant_id = ? AND id = ?"
# Assigns journal numbers, and counts sub-goals by status and in the current plan. The row lock makes concurrent writers of the goal
# wait.
UPDATE_COUNTERS = """UPDATE goals SET journaled = journaled + ?, pending = pending + ?, in_progress = in_progress + ?,
    completed = completed + ?, failed = failed + ?, skipped = skipped + ?, in_plan = in_plan + ?, done = done + ?
    WHERE tenant_id = ? AND id = ? RETURNING journaled"""
EXPERIENCE_SAMPLE = 1_000  # number of recent sub-goals considered


def insert_goal(tx: Transaction, goal: Goal) -> Goal:
    return logged_transaction.insert(tx, goal.tenant_id, "goals", GOALS, goal._replace(created_at=tx.now, updated_at=tx.now))


def find_goal(tx: Transaction, tenant_id: int, goal_id: int) -> Goal | None:
    return GOALS.one(tx, f"{SELECT} WHERE tenant_id = ? AND id = ?", tenant_id, goal_id)


def find_locked_goal(tx: Transaction, tenant_id: int, goal_id: int) -> Goal | None:
    return GOALS.one(tx, f"{SELECT} WHERE tenant_id = ? AND id = ?{tx.dialect.for_update}", tenant_id, goal_id)


def save_goal(tx: Transaction, goal: Goal) -> None:
    tx.run(UPDATE, *GOALS.dump_changed(goal), goal.tenant_id, goal.id)


def find_with_cost(tx: Transaction, tenant_id: int, goal_id: int) -> tuple[Goal, int] | None:
    """Return a goal and the cost of its agents so far."""
    row = tx.one(SELECT_WITH_COST, tenant_id, goal_id)
    return (GOALS.load(row[:-1]), int(row[-1] or 0)) if row else None


# The sort key of each order, the highest first; goals with the same value are sorted by their ids.
SORT_KEYS: Final[Mapping[GoalSort, str]] = {
    "newest": "id",
    "updated": "updated_at",
    "priority": f"({MAX_INTEGER} - priority)",
    "deadline": f"(CASE WHEN deadline_at = 0 OR ended_at <> 0 THEN 0 ELSE {MAX_INTEGER} - deadline_at END)",
}


def get_sort_key(goal: Goal, sort: GoalSort) -> int:
    """Return what a goal is sorted by, as SORT_KEYS does."""
    if sort == "deadline":
        return MAX_INTEGER - goal.deadline_at if goal.deadline_at and not goal.ended else 0
    return {"newest": goal.id, "updated": goal.updated_at, "priority": MAX_INTEGER - goal.priority}[sort]


def list_goal_page(
    tx: Transaction, tenant_id: int, chosen: GoalFilter, limit: int, after: tuple[int, int], waiting_ids: Iterable[int] = ()
) -> list[Goal]:
    """List goals that come after a sort key and an id. The words of the filter are left to the caller. `waiting_ids` are goals with
    agents that wait for a person."""
    key = SORT_KEYS[chosen.sort]
    conditions, values = [f"({key} < ? OR ({key} = ? AND id < ?))"], list[int | str]([after[0], *after])
    if chosen.status:
        conditions.append("status = ?")
        values.append(chosen.status)
    if chosen.waiting:
        ids = list(waiting_ids)
        kinds, numbers = ", ".join("?" * len(DECISION_KINDS)), ", ".join("?" * len(ids)) or "NULL"
        conditions.append(f"((status = 'paused' AND pause_kind IN ({kinds})) OR id IN ({numbers}))")
        values += [*DECISION_KINDS, *ids]
    sql = f"{SELECT} WHERE tenant_id = ? AND {' AND '.join(conditions)} ORDER BY {key} DESC, id DESC LIMIT ?"
    return GOALS.all(tx, sql, tenant_id, *values, limit)


def count_open(tx: Transaction, tenant_id: int) -> int:
    row = tx.one("SELECT COUNT(*) FROM goals WHERE tenant_id = ? AND status IN ('active', 'paused')", tenant_id)
    return int(row[0]) if row else 0


# Sub-goals

SUB_GOALS = Columns(
    SubGoal,
    depends_on=Column(
        sql="""(SELECT string_agg(CAST(e.depends_on AS TEXT), ',') FROM sub_goal_edges e
        WHERE e.tenant_id = sub_goals.tenant_id AND e.sub_goal_id = sub_goals.id)""",
        decode=split_ids,
    ),
)
SELECT_SUB_GOALS = f"SELECT {SUB_GOALS.selected} FROM sub_goals"
# Counts the dependencies a sub-goal waits for. A dependency is satisfied when it is completed and judged.
UPDATE_WAITS = """UPDATE sub_goals SET
    waits_for = (SELECT COUNT(*) FROM sub_goal_edges e JOIN sub_goals below ON below.tenant_id = e.tenant_id
        AND below.id = e.depends_on
        WHERE e.tenant_id = sub_goals.tenant_id AND e.sub_goal_id = sub_goals.id
        AND (below.status <> 'completed' OR below.divergence IS NULL)),
    waits_in_vain = (SELECT COUNT(*) FROM sub_goal_edges e JOIN sub_goals below ON below.tenant_id = e.tenant_id
        AND below.id = e.depends_on
        WHERE e.tenant_id = sub_goals.tenant_id AND e.sub_goal_id = sub_goals.id
        AND below.status IN ('failed', 'skipped'))"""


class NewJournalEntry(NamedTuple):
    """A journal entry that has no number yet."""

    kind: str
    data: str


def insert_sub_goal(tx: Transaction, sub_goal: SubGoal) -> int:
    new = logged_transaction.insert(
        tx, sub_goal.tenant_id, "sub_goals", SUB_GOALS, sub_goal._replace(created_at=tx.now, updated_at=tx.now)
    )
    update_counters(tx, new.tenant_id, new.goal_id, entries=0, changes={"pending": 1, "in_plan": 1})
    return new.id


def find_sub_goal(tx: Transaction, tenant_id: int, sub_goal_id: int) -> SubGoal | None:
    return SUB_GOALS.one(tx, f"{SELECT_SUB_GOALS} WHERE tenant_id = ? AND id = ?", tenant_id, sub_goal_id)


def list_sub_goals(tx: Transaction, tenant_id: int, goal_id: int) -> list[SubGoal]:
    return SUB_GOALS.all(tx, f"{SELECT_SUB_GOALS} WHERE tenant_id = ? AND goal_id = ? ORDER BY id", tenant_id, goal_id)


def change_sub_goal(
    tx: Transaction, sub_goal: SubGoal, entry: NewJournalEntry | None, **changes: Any
) -> tuple[SubGoal, JournalEntry | None]:
    """Change a sub-goal; all changes go through here. This also appends a journal entry if one is given, updates the goal's
    counters, and recomputes what the dependent sub-goals wait for."""
    after = sub_goal._replace(updated_at=tx.now, **changes)
    counter_changes = list_counter_changes(sub_goal, after)
    stored_entry = None
    if entry or counter_changes:
        number = update_counters(tx, sub_goal.tenant_id, sub_goal.goal_id, entries=int(entry is not None), changes=counter_changes)
        stored_entry = write_entry(tx, sub_goal.tenant_id, sub_goal.goal_id, number, entry) if entry else None
    sets = "".join(f"{name} = ?, " for name in changes)
    row = tx.one(
        f"UPDATE sub_goals SET {sets}updated_at = ? WHERE tenant_id = ? AND id = ? AND status = ? RETURNING id",
        *changes.values(),
        tx.now,
        sub_goal.tenant_id,
        sub_goal.id,
        sub_goal.status,
    )
    assert row is not None, "lock the goal before changing its sub-goals"
    if "divergence" in changes or after.status in ("failed", "skipped"):
        above = "SELECT sub_goal_id FROM sub_goal_edges WHERE tenant_id = ? AND depends_on = ?"
        tx.run(f"{UPDATE_WAITS} WHERE tenant_id = ? AND id IN ({above})", sub_goal.tenant_id, sub_goal.tenant_id, sub_goal.id)
    return after, stored_entry


def list_counter_changes(old: SubGoal, new: SubGoal) -> dict[str, int]:
    """Return by how much the change of a sub-goal changes the counters of its goal."""
    by_status: dict[str, int] = {old.status: -1, new.status: 1} if new.status != old.status else {}
    in_plan = (new.superseded_by == 0) - (old.superseded_by == 0)
    done = (new.is_done and new.superseded_by == 0) - (old.is_done and old.superseded_by == 0)
    return {**by_status, **({"in_plan": in_plan} if in_plan else {}), **({"done": done} if done else {})}


def accept_divergences(tx: Transaction, tenant_id: int, goal_id: int) -> None:
    """Stop counting the goal's divergences towards a replan. They stay recorded, but under no current plan."""
    tx.run("UPDATE sub_goals SET judged_under = 0 WHERE tenant_id = ? AND goal_id = ?", tenant_id, goal_id)


def replace_edges(tx: Transaction, tenant_id: int, sub_goal_id: int, depends_on: Iterable[int]) -> None:
    tx.run("DELETE FROM sub_goal_edges WHERE tenant_id = ? AND sub_goal_id = ?", tenant_id, sub_goal_id)
    for dependency in sorted(set(depends_on)):
        tx.run(
            "INSERT INTO sub_goal_edges (tenant_id, sub_goal_id, depends_on) VALUES (?, ?, ?)", tenant_id, sub_goal_id, dependency
        )
    tx.run(f"{UPDATE_WAITS} WHERE tenant_id = ? AND id = ?", tenant_id, sub_goal_id)


def update_counters(tx: Transaction, tenant_id: int, goal_id: int, *, entries: int, changes: Mapping[str, int]) -> int:
    """Add to the goal's journal and sub-goal counters. Returns the number of the last journal entry."""
    row = tx.one(UPDATE_COUNTERS, entries, *(changes.get(name, 0) for name in (*STATUSES, "in_plan", "done")), tenant_id, goal_id)
    assert row is not None
    return int(row[0])


def list_experience(tx: Transaction, tenant_id: int) -> list[Experience]:
    """Summarize the results of the tenant's most recent sub-goals, by kind. Sub-goals that forks have copied have no run."""
    rows = tx.all(
        """SELECT kind, COUNT(*), SUM(CASE WHEN status = 'completed' AND divergence = 'none' THEN 1 ELSE 0 END),
               SUM(cost), SUM(ended_at - started_at)
           FROM (SELECT kind, status, divergence, cost, started_at, ended_at FROM sub_goals
                 WHERE tenant_id = ? AND status IN ('completed', 'failed') AND run_id IS NOT NULL
                 ORDER BY ended_at DESC LIMIT ?) tried
           GROUP BY kind ORDER BY COUNT(*) DESC, kind LIMIT 20""",
        tenant_id,
        EXPERIENCE_SAMPLE,
    )
    return [
        Experience(kind, int(attempts), int(successes), int(cost) // int(attempts), int(duration) // int(attempts))
        for kind, attempts, successes, cost, duration in rows
    ]


# The journal

ENTRIES = Columns(JournalEntry)
SELECT_ENTRIES = f"SELECT {ENTRIES.selected} FROM journal"
INSERT_ENTRY = f"INSERT INTO journal (goal_id, tenant_id, {ENTRIES.stored}) VALUES (?, ?, {ENTRIES.marks})"


def append_entry(tx: Transaction, tenant_id: int, goal_id: int, entry: NewJournalEntry) -> JournalEntry:
    return write_entry(tx, tenant_id, goal_id, update_counters(tx, tenant_id, goal_id, entries=1, changes={}), entry)


def write_entry(tx: Transaction, tenant_id: int, goal_id: int, number: int, entry: NewJournalEntry) -> JournalEntry:
    stored_entry = JournalEntry(number, *entry, tx.now)
    tx.run(INSERT_ENTRY, goal_id, tenant_id, *stored_entry)
    return stored_entry


def list_entries(tx: Transaction, tenant_id: int, goal_id: int, limit: int, before: int) -> list[JournalEntry]:
    """List the last journal entries before a number, oldest first."""
    sql = f"{SELECT_ENTRIES} WHERE tenant_id = ? AND goal_id = ? AND n < ? ORDER BY n DESC LIMIT ?"
    return ENTRIES.all(tx, sql, tenant_id, goal_id, before, limit)[::-1]


def list_plan_entries(tx: Transaction, tenant_id: int, goal_id: int, limit: int, before: int) -> list[JournalEntry]:
    """List the journal entries about plans, newest first."""
    sql = f"""{SELECT_ENTRIES} WHERE tenant_id = ? AND goal_id = ? AND n < ? AND kind IN ('planned', 'replanned')
        ORDER BY n DESC LIMIT ?"""
    return ENTRIES.all(tx, sql, tenant_id, goal_id, before, limit)


# Planning cycles


def open_cycle(tx: Transaction, tenant_id: int, goal_id: int) -> bool:
    """Open a planning cycle, unless one is open. Returns whether it was opened."""
    row: Any = tx.one(
        """INSERT INTO planning_cycles (tenant_id, goal_id, status, started_at) VALUES (?, ?, 'active', ?)
           ON CONFLICT DO NOTHING RETURNING id""",
        tenant_id,
        goal_id,
        tx.now,
    )
    return row is not None


def end_cycle(tx: Transaction, tenant_id: int, goal_id: int, status: str) -> bool:
    """End the open planning cycle. Returns whether there was one."""
    row = tx.one(
        """UPDATE planning_cycles SET status = ?, ended_at = ? WHERE tenant_id = ? AND goal_id = ? AND status = 'active'
           RETURNING id""",
        status,
        tx.now,
        tenant_id,
        goal_id,
    )
    return row is not None


# SQL for one step of a goal's pursuit. Each query reads a few sub-goals through an index, however many there are.


SELECT_OF_GOAL = f"{SELECT_SUB_GOALS} WHERE tenant_id = ? AND goal_id = ?"
SELECT_ACTIVE = f"""{SELECT_OF_GOAL} AND (status = 'in-progress' OR (status IN ('completed', 'failed') AND divergence IS NULL))
    ORDER BY id"""
SELECT_READY = f"""{SELECT_OF_GOAL} AND mode = ? AND status = 'pending' AND waits_for = 0
    ORDER BY urgency * expected_value DESC, id LIMIT ?"""
SELECT_COMPLETED = f"{SELECT_OF_GOAL} AND status = 'completed' ORDER BY id DESC LIMIT ?"
SELECT_DEPENDENCIES = f"""{SELECT_SUB_GOALS} WHERE tenant_id = ? AND id IN (
    SELECT depends_on FROM sub_goal_edges WHERE tenant_id = ? AND sub_goal_id = ?) ORDER BY id"""
SELECT_DOUBTS = """SELECT divergence FROM sub_goals WHERE tenant_id = ? AND goal_id = ? AND judged_under = ?
        AND divergence IN ('minor', 'major')
    UNION ALL SELECT 'in vain' FROM sub_goals WHERE tenant_id = ? AND goal_id = ? AND status = 'pending' AND waits_in_vain > 0"""


def list_active(tx: Transaction, goal: Goal) -> list[SubGoal]:
    """List the sub-goals that are in progress, or have ended and are not judged yet."""
    return SUB_GOALS.all(tx, SELECT_ACTIVE, goal.tenant_id, goal.id)


def list_ready_pursuits(tx: Transaction, goal: Goal, mode: SubGoalMode, limit: int) -> list[SubGoal]:
    """List the pending sub-goals that wait for nothing, highest worth first."""
    return SUB_GOALS.all(tx, SELECT_READY, goal.tenant_id, goal.id, mode, limit)


def list_doubts(tx: Transaction, goal: Goal) -> list[str]:
    """List the reasons to doubt the current plan: outcomes that diverged under it and sub-goals that can never start."""
    return [str(row[0]) for row in tx.all(SELECT_DOUBTS, goal.tenant_id, goal.id, goal.plan_no, goal.tenant_id, goal.id)]


def list_dependencies(tx: Transaction, sub_goal: SubGoal) -> list[SubGoal]:
    """List the sub-goals that this one depends on."""
    if not sub_goal.depends_on:
        return []
    return SUB_GOALS.all(tx, SELECT_DEPENDENCIES, sub_goal.tenant_id, sub_goal.tenant_id, sub_goal.id)


def list_last_completed(tx: Transaction, goal: Goal, limit: int) -> list[SubGoal]:
    """List the sub-goals completed last, oldest first."""
    return SUB_GOALS.all(tx, SELECT_COMPLETED, goal.tenant_id, goal.id, limit)[::-1]
