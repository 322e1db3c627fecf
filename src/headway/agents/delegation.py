"""Delegation: start a sub-agent, render its opening message, and limit how many sub-agents a turn or sub-goal may have."""

import json
from typing import Any, NamedTuple

from headway.actions.runs import runs
from headway.actions.turns import memory
from headway.agents import writs
from headway.agents.instructions.roles import Role
from headway.ledger import text
from headway.ledger.errors import Invalid
from headway.ledger.framing import escape_frames, format_frame, format_inline
from headway.ledger.limits import Limits
from headway.ledger.run import Run
from headway.ledger.scope import Scope
from headway.storage.stores import goals as goal_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

REQUEST_LIMIT = 2_000
MEMORIES_LIMIT = 10
TODO_HINT = "Open todos (mark progress as you go — /todo start <id>, /todo done <id>):"


class Assignment(NamedTuple):
    role: Role
    task: str
    context: Any = None

    def render_context(self) -> str:
        """Return the context as text that can be stored, or an empty string if there is none."""
        if self.context in (None, "", {}, []):
            return ""
        context = self.context if isinstance(self.context, str) else json.dumps(self.context, ensure_ascii=False, indent=1)
        return text.check_text(context, "context")


def delegate(tx: Transaction, parent: Run, assignment: Assignment, limits: Limits) -> Run:
    """Start a sub-agent at an agent's request. Raises Invalid when a limit on depth or number is reached."""
    check_limits(tx, parent, limits)
    return start_sub_agent(tx, parent, assignment, limits)


def start_sub_agent(tx: Transaction, parent: Run, assignment: Assignment, limits: Limits, sub_goal_id: int | None = None) -> Run:
    """Start a sub-agent whose transcript holds only the delegation envelope, its task and the context it was given."""
    from headway.agents.transcripts import transcript  # noqa: PLC0415  loads the model layer

    context = assignment.render_context()
    task = text.check_text(assignment.task, "task")
    role = assignment.role
    child = runs.begin_child(
        tx, parent, role.name, task, limits.sub_agent_iterations, limits.attempts, sub_goal_id, role.repository
    )
    escaped = escape_frames(task)
    parts = [render_envelope(tx, parent, child, limits), escaped, *([f"Context:\n{escape_frames(context)}"] if context else [])]
    opening = transcript.build_runtime_message("\n\n".join(parts), {"task": escaped})
    run_store.append_messages(tx, child.tenant_id, child.id, 0, transcript.encode(opening))
    return child


def check_limits(tx: Transaction, parent: Run, limits: Limits) -> None:
    if parent.depth >= limits.depth:
        raise Invalid(f"Sub-agents can be nested at most {limits.depth} deep: do this yourself.")
    started_count, running_count = run_store.count_sub_agents(tx, parent)
    parent_kind = "turn" if parent.turn_id else "sub-goal"
    if running_count >= limits.breadth:
        raise Invalid(f"{running_count} sub-agents of this {parent_kind} are running, which is the limit: await one of them first.")
    if started_count >= limits.lifetime:
        raise Invalid(f"This {parent_kind} has started {started_count} sub-agents, which is the limit: do the rest yourself.")


def render_envelope(tx: Transaction, parent: Run, child: Run, limits: Limits) -> str:
    """Render the delegation envelope: the original request, the delegating role, memories and open todos.

    Each lookup is best effort. A section whose lookup fails or returns nothing is omitted.
    """
    scope = Scope(parent.tenant_id, parent.conversation_id, parent.turn_id)
    lines = [
        f"Original request: {format_inline(get_original_request(tx, parent), REQUEST_LIMIT)}",
        f"Delegated by: {format_inline(parent.role)}",
        f"Pipeline depth: {child.depth}/{limits.depth}",
        *describe_repository(child),
        *(tx.try_read(lambda tx: render_memories(tx, scope)) or []),
        *(tx.try_read(lambda tx: render_open_todos(tx, scope)) or []),
    ]
    return format_frame("DELEGATION CONTEXT", lines, "END DELEGATION CONTEXT")


def describe_repository(child: Run) -> list[str]:
    """Say how work in a repository is delivered, if the sub-agent works in one."""
    if not child.repository:
        return []
    from headway.agents.repositories.places import get_branch  # noqa: PLC0415  most runs have none

    return [f"Repository: your workspace is your own branch of it, {get_branch(child)}. Your changes are committed when you end."]


def get_original_request(tx: Transaction, parent: Run) -> str:
    """Return the request at the root of the delegation chain.

    For a goal this is its current description, which may have been edited.
    """
    root = parent
    while root.parent_run_id is not None:
        root = runs.get_run(tx, root.tenant_id, root.parent_run_id)
    goal = goal_store.find_goal(tx, root.tenant_id, root.goal_id) if root.goal_id is not None else None
    return goal.description if goal else root.task


def render_memories(tx: Transaction, scope: Scope) -> list[str]:
    entries = memory.recall(tx, scope, limit=MEMORIES_LIMIT)
    if not entries:
        return []
    # Format each line as a whole: a stored kind inside brackets that we add could imitate the head of a frame.
    lines = [f"- {format_inline(f'#{entry.id} [{entry.kind}] {entry.text}')}" for entry in entries]
    return ["Pipeline memory (entries written by prior agents this conversation):", *lines]


def render_open_todos(tx: Transaction, scope: Scope) -> list[str]:
    """Render the conversation's open todos, including the delegating turn's plan, and the tenant-wide ones."""
    lines = writs.render_open_todos(tx, scope)
    return [TODO_HINT, *lines] if lines else []
