"""Handing work to a sub-agent: what it is told, how many there may be, and waiting for them without holding a slot."""

import json
from typing import Any, NamedTuple

from headway.actions import memory, runs
from headway.agents import transcript, writs
from headway.agents.roles import Role
from headway.ledger import text
from headway.ledger.errors import Invalid
from headway.ledger.framing import frame, inline, unframed
from headway.ledger.run import Limits, Run
from headway.ledger.scope import Scope
from headway.storage import goal_store, run_store
from headway.storage.transaction import Transaction

REQUEST_SHOWN = 2_000
MEMORIES_SHOWN = 10
TODO_HINT = "Open todos (mark progress as you go — /todo start <id>, /todo done <id>):"


class Assignment(NamedTuple):
    role: Role
    task: str
    context: Any = None

    def given(self) -> str:
        """The context as text, as far as that can be stored; nothing if there is none."""
        if self.context in (None, "", {}, []):
            return ""
        shown = self.context if isinstance(self.context, str) else json.dumps(self.context, ensure_ascii=False, indent=1)
        return text.safe(shown, "context")


def hand_over(tx: Transaction, parent: Run, assignment: Assignment, limits: Limits) -> Run:
    """Begin a sub-agent that an agent asked for, if it may have one more."""
    check_caps(tx, parent, limits)
    return assign(tx, parent, assignment, limits)


def assign(tx: Transaction, parent: Run, assignment: Assignment, limits: Limits, sub_goal_id: int | None = None) -> Run:
    """Begin a sub-agent with a transcript of its own: the envelope, its task, the context it was given, and nothing else."""
    given = assignment.given()
    task = text.safe(assignment.task, "task")
    child = runs.begin_child(tx, parent, assignment.role.name, task, limits.sub_agent_iterations, limits.attempts, sub_goal_id)
    parts = [envelope(tx, parent, child, limits), unframed(task), *([f"Context:\n{unframed(given)}"] if given else [])]
    run_store.append(tx, child.tenant_id, child.id, 0, transcript.encode(transcript.user("\n\n".join(parts))))
    return child


def check_caps(tx: Transaction, parent: Run, limits: Limits) -> None:
    if parent.depth >= limits.depth:
        raise Invalid(f"Sub-agents may be nested {limits.depth} deep; do this yourself.")
    begun, under_way = run_store.sub_agents(tx, parent)
    of = "turn" if parent.turn_id else "sub-goal"
    if under_way >= limits.breadth:
        raise Invalid(f"{under_way} sub-agents of this {of} are at work, which is the limit: await one of them first.")
    if begun >= limits.lifetime:
        raise Invalid(f"This {of} has begun {begun} sub-agents, which is the limit: do the rest yourself.")


def envelope(tx: Transaction, parent: Run, child: Run, limits: Limits) -> str:
    """Where the work comes from. Every look-up is best effort: one that fails, or finds nothing, leaves its section out."""
    scope = Scope(parent.tenant_id, parent.conversation_id, parent.turn_id)
    lines = [
        f"Original request: {inline(request_of(tx, parent), REQUEST_SHOWN)}",
        f"Delegated by: {inline(parent.role)}",
        f"Pipeline depth: {child.depth}/{limits.depth}",
        *(tx.glance(lambda tx: remembered(tx, scope)) or []),
        *(tx.glance(lambda tx: still_open(tx, scope)) or []),
    ]
    return frame("DELEGATION CONTEXT", lines, "END DELEGATION CONTEXT")


def request_of(tx: Transaction, parent: Run) -> str:
    """What the person asked for, however deep this is; a goal may have changed since."""
    root = parent
    while root.parent_run_id is not None:
        root = runs.get(tx, root.tenant_id, root.parent_run_id)
    goal = goal_store.get(tx, root.tenant_id, root.goal_id) if root.goal_id is not None else None
    return goal.description if goal else root.task


def remembered(tx: Transaction, scope: Scope) -> list[str]:
    entries = memory.recall(tx, scope, limit=MEMORIES_SHOWN)
    if not entries:
        return []
    # In one go: a kind in brackets of ours could be the head of a frame.
    lines = [f"- {inline(f'#{entry.id} [{entry.kind}] {entry.text}')}" for entry in entries]
    return ["Pipeline memory (entries written by prior agents this conversation):", *lines]


def still_open(tx: Transaction, scope: Scope) -> list[str]:
    """The conversation's, the plan of the turn that delegates included, and the tenant-wide ones."""
    lines = writs.open_todos(tx, scope)
    return [TODO_HINT, *lines] if lines else []
