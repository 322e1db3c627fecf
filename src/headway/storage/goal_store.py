"""Rows of goals: their sub-goals with what each waits for, their journal, and the stretches in which they were pursued."""

from collections.abc import Iterable
from typing import Any

from headway.ledger.goal import Experience, Goal, GoalStatus, JournalEntry, SubGoal
from headway.storage.transaction import Row, Transaction

COLUMNS = """id, tenant_id, source, description, success_criteria, evidence, status, priority, pause_kind, pause_reason,
    replan_count, plan_no, replan_why, run_id, budget, deadline_at, created_at, updated_at, ended_at"""
LEARNT_FROM = 1_000  # the newest sub-goals that were tried


def insert(tx: Transaction, goal: Goal) -> Goal:
    row = tx.one(
        f"""INSERT INTO goals (tenant_id, source, description, success_criteria, evidence, status, priority, pause_kind,
            pause_reason, budget, deadline_at, created_at, updated_at)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING {COLUMNS}""",
        goal.tenant_id,
        goal.source,
        goal.description,
        goal.success_criteria,
        goal.evidence,
        goal.status,
        goal.priority,
        goal.pause_kind,
        goal.pause_reason,
        goal.budget,
        goal.deadline_at,
        tx.now,
        tx.now,
    )
    assert row is not None
    return Goal._make(row)


def get(tx: Transaction, tenant_id: int, goal_id: int) -> Goal | None:
    row = tx.one(f"SELECT {COLUMNS} FROM goals WHERE tenant_id = ? AND id = ?", tenant_id, goal_id)
    return Goal._make(row) if row else None


def get_locked(tx: Transaction, tenant_id: int, goal_id: int) -> Goal | None:
    row = tx.one(f"SELECT {COLUMNS} FROM goals WHERE tenant_id = ? AND id = ?{tx.dialect.for_update}", tenant_id, goal_id)
    return Goal._make(row) if row else None


def save(tx: Transaction, goal: Goal) -> None:
    tx.run(
        """UPDATE goals SET description = ?, status = ?, pause_kind = ?, pause_reason = ?, replan_count = ?, plan_no = ?,
           replan_why = ?, run_id = ?, budget = ?, deadline_at = ?, updated_at = ?, ended_at = ? WHERE tenant_id = ? AND id = ?""",
        goal.description,
        goal.status,
        goal.pause_kind,
        goal.pause_reason,
        goal.replan_count,
        goal.plan_no,
        goal.replan_why,
        goal.run_id,
        goal.budget,
        goal.deadline_at,
        goal.updated_at,
        goal.ended_at,
        goal.tenant_id,
        goal.id,
    )


def page(tx: Transaction, tenant_id: int, status: GoalStatus | None, limit: int, before: int) -> list[Goal]:
    """The newest first, before that id."""
    chosen, parameters = ("AND status = ?", (status,)) if status else ("", ())
    rows = tx.all(
        f"SELECT {COLUMNS} FROM goals WHERE tenant_id = ? {chosen} AND id < ? ORDER BY id DESC LIMIT ?",
        tenant_id,
        *parameters,
        before,
        limit,
    )
    return [Goal._make(row) for row in rows]


def count_unended(tx: Transaction, tenant_id: int) -> int:
    row = tx.one("SELECT COUNT(*) FROM goals WHERE tenant_id = ? AND status IN ('active', 'paused')", tenant_id)
    return int(row[0]) if row else 0


# Sub-goals

SUB_COLUMNS = """id, tenant_id, goal_id, plan_no, description, expected_outcome, kind, mode, role, priority, expected_value,
    cost_limit, status, outcome, reason, divergence, divergence_reason, judged_under, run_id, cost, interrupted, interventions,
    checks, checked_at, progress_at, progress_steps, progress_effects, created_at, updated_at, started_at, ended_at"""


def insert_sub_goal(tx: Transaction, sub_goal: SubGoal) -> int:
    row = tx.one(
        """INSERT INTO sub_goals (tenant_id, goal_id, plan_no, description, expected_outcome, kind, mode, role, priority,
           expected_value, cost_limit, status, created_at, updated_at)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?) RETURNING id""",
        *sub_goal[1:12],
        tx.now,
        tx.now,
    )
    assert row is not None
    return int(row[0])


def get_sub_goal(tx: Transaction, tenant_id: int, sub_goal_id: int) -> SubGoal | None:
    row = tx.one(f"SELECT {SUB_COLUMNS} FROM sub_goals WHERE tenant_id = ? AND id = ?", tenant_id, sub_goal_id)
    return with_edges(tx, [row], "sub_goal_id = ?", sub_goal_id)[0] if row else None


def sub_goals(tx: Transaction, tenant_id: int, goal_id: int) -> list[SubGoal]:
    rows = tx.all(f"SELECT {SUB_COLUMNS} FROM sub_goals WHERE tenant_id = ? AND goal_id = ? ORDER BY id", tenant_id, goal_id)
    return with_edges(tx, rows, "sub_goal_id IN (SELECT id FROM sub_goals WHERE goal_id = ?)", goal_id)


def with_edges(tx: Transaction, rows: list[Row], of: str, owner: int) -> list[SubGoal]:
    below: dict[int, list[int]] = {}
    for upper, lower in tx.all(f"SELECT sub_goal_id, depends_on FROM sub_goal_edges WHERE {of} ORDER BY depends_on", owner):
        below.setdefault(int(upper), []).append(int(lower))
    return [SubGoal._make((*row, tuple(below.get(int(row[0]), ())))) for row in rows]


def save_sub_goal(tx: Transaction, one: SubGoal) -> None:
    tx.run(
        """UPDATE sub_goals SET description = ?, expected_outcome = ?, status = ?, outcome = ?, reason = ?, divergence = ?,
           divergence_reason = ?, judged_under = ?, run_id = ?, cost = ?, interrupted = ?, interventions = ?, checks = ?,
           checked_at = ?, progress_at = ?, progress_steps = ?, progress_effects = ?, updated_at = ?, started_at = ?, ended_at = ?
           WHERE tenant_id = ? AND id = ?""",
        one.description,
        one.expected_outcome,
        one.status,
        one.outcome,
        one.reason,
        one.divergence,
        one.divergence_reason,
        one.judged_under,
        one.run_id,
        one.cost,
        one.interrupted,
        one.interventions,
        one.checks,
        one.checked_at,
        one.progress_at,
        one.progress_steps,
        one.progress_effects,
        one.updated_at,
        one.started_at,
        one.ended_at,
        one.tenant_id,
        one.id,
    )


def accept_divergences(tx: Transaction, tenant_id: int, goal_id: int) -> None:
    """Judged under no plan that is in force: they stay known, and count no more."""
    tx.run("UPDATE sub_goals SET judged_under = 0 WHERE tenant_id = ? AND goal_id = ?", tenant_id, goal_id)


def put_edges(tx: Transaction, sub_goal_id: int, depends_on: Iterable[int]) -> None:
    tx.run("DELETE FROM sub_goal_edges WHERE sub_goal_id = ?", sub_goal_id)
    for below in sorted(set(depends_on)):
        tx.run("INSERT INTO sub_goal_edges (sub_goal_id, depends_on) VALUES (?, ?)", sub_goal_id, below)


def count_by_status(tx: Transaction, tenant_id: int, goal_id: int) -> dict[str, int]:
    sql = "SELECT status, COUNT(*) FROM sub_goals WHERE tenant_id = ? AND goal_id = ? GROUP BY status"
    return {str(status): int(count) for status, count in tx.all(sql, tenant_id, goal_id)}


def experience(tx: Transaction, tenant_id: int) -> list[Experience]:
    """What became of the tenant's newest sub-goals, by kind."""
    rows = tx.all(
        """SELECT kind, COUNT(*), SUM(CASE WHEN status = 'completed' AND divergence = 'none' THEN 1 ELSE 0 END),
               SUM(cost), SUM(ended_at - started_at)
           FROM (SELECT kind, status, divergence, cost, started_at, ended_at FROM sub_goals
                 WHERE tenant_id = ? AND status IN ('completed', 'failed') ORDER BY ended_at DESC LIMIT ?) tried
           GROUP BY kind ORDER BY COUNT(*) DESC, kind LIMIT 20""",
        tenant_id,
        LEARNT_FROM,
    )
    return [
        Experience(kind, int(tried), int(good), int(cost) // int(tried), int(took) // int(tried))
        for kind, tried, good, cost, took in rows
    ]


# The journal


def append_entry(tx: Transaction, tenant_id: int, goal_id: int, kind: str, data: str) -> JournalEntry:
    """Numbered by the goal itself: whoever else writes of it waits until this is stored."""
    row = tx.one(
        "UPDATE goals SET journaled = journaled + 1 WHERE tenant_id = ? AND id = ? RETURNING journaled", tenant_id, goal_id
    )
    assert row is not None
    entry = JournalEntry(int(row[0]), kind, data, tx.now)
    tx.run("INSERT INTO journal (goal_id, tenant_id, n, kind, data, at) VALUES (?, ?, ?, ?, ?, ?)", goal_id, tenant_id, *entry)
    return entry


def entries(tx: Transaction, tenant_id: int, goal_id: int, limit: int, before: int) -> list[JournalEntry]:
    """The last ones before that number, oldest first."""
    rows = tx.all(
        "SELECT n, kind, data, at FROM journal WHERE tenant_id = ? AND goal_id = ? AND n < ? ORDER BY n DESC LIMIT ?",
        tenant_id,
        goal_id,
        before,
        limit,
    )
    return [JournalEntry._make(row) for row in reversed(rows)]


# Planning cycles


def open_cycle(tx: Transaction, tenant_id: int, goal_id: int) -> bool:
    """Whether there was none."""
    row: Any = tx.one(
        """INSERT INTO planning_cycles (tenant_id, goal_id, status, started_at) VALUES (?, ?, 'active', ?)
           ON CONFLICT DO NOTHING RETURNING id""",
        tenant_id,
        goal_id,
        tx.now,
    )
    return row is not None


def end_cycle(tx: Transaction, tenant_id: int, goal_id: int, status: str) -> bool:
    """Whether there was one."""
    row = tx.one(
        """UPDATE planning_cycles SET status = ?, ended_at = ? WHERE tenant_id = ? AND goal_id = ? AND status = 'active'
           RETURNING id""",
        status,
        tx.now,
        tenant_id,
        goal_id,
    )
    return row is not None
