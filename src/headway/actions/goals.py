"""Goals: setting, proposing, pausing, deciding, abandoning and completing them. A job pursues each goal."""

from typing import NamedTuple
from uuid import uuid4

from headway.actions import halts, jobs, journal, notices, runs, spending, sub_goals, turns
from headway.actions.access import quotas
from headway.actions.people import waiting
from headway.ledger import text
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.goal import OPEN_STATUSES, Decision, Goal, GoalSource, GoalStatus, PauseKind, SubGoal
from headway.ledger.job import Job
from headway.ledger.run import Limits, Run, RunEnd, RunStatus, to_dollars
from headway.storage.stores import goals as goal_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

JOB_KIND = "goal"  # the kind of a goal's job
OPEN_GOALS_LIMIT = 1_000  # per tenant
DESCRIPTION_LIMIT = 10_000
REPOSITORY_LIMIT = 1_000
LOWEST_PRIORITY = 1_000
DEFAULT_PRIORITY = 50
DEFAULT_LIMITS = Limits()
NOT_FOUND_MESSAGE = "No goal #{}."
PROPOSAL_REASON = "An agent proposed this goal. Continue to start it, or abandon it to decline."


class NewGoal(NamedTuple):
    description: str
    success_criteria: str = ""
    priority: int = DEFAULT_PRIORITY
    budget: int = 0
    deadline_at: int = 0
    repository: str = ""  # a path inside the tenant's workspace, which the caller has checked
    checks: str = ""  # JSON: what must hold at its end
    repeat_of: int = 0  # the goal that is run again


def add(
    tx: Transaction,
    tenant_id: int,
    new_goal: NewGoal,
    limits: Limits = DEFAULT_LIMITS,
    source: GoalSource = "operator-injected",
    evidence: str = "",
) -> Goal:
    """Store a goal and create its main agent, which starts to pursue it at once."""
    halts.check(tx)
    goal = insert(tx, tenant_id, new_goal, source, "active", evidence)
    return begin(tx, goal, limits)


def propose(tx: Transaction, tenant_id: int, new_goal: NewGoal, evidence: str) -> Goal:
    """Store a goal that an agent suggests. It waits for the operator's approval."""
    goal = insert(tx, tenant_id, new_goal, "agent-discovered", "paused", evidence)
    quoted = text.to_one_line(evidence)[:300]
    question = f"An agent proposes goal #{goal.id}: {format_description(goal)} Evidence: {quoted} Continue, or abandon it?"
    notices.notify_about_goal(tx, goal, "proposal", question)
    return goal


def validate(new_goal: NewGoal) -> NewGoal:
    """Check a new goal's texts and priority; nothing here depends on the time."""
    description = text.check_text(new_goal.description.strip(), "description", DESCRIPTION_LIMIT)
    if not description:
        raise Invalid("description must not be blank. Say what the goal should achieve.")
    if not 0 <= new_goal.priority <= LOWEST_PRIORITY:
        raise Invalid(f"priority must be between 0 (highest) and {LOWEST_PRIORITY:,}.")
    criteria = text.check_text(new_goal.success_criteria.strip(), "success_criteria", DESCRIPTION_LIMIT)
    repository = text.check_text(new_goal.repository, "repository", REPOSITORY_LIMIT)
    if repository.startswith("/") or ".." in repository.split("/"):
        raise Invalid("repository must be a path inside the workspace.")
    return new_goal._replace(description=description, success_criteria=criteria)


def insert(tx: Transaction, tenant_id: int, new_goal: NewGoal, source: GoalSource, status: GoalStatus, evidence: str) -> Goal:
    new_goal = validate(new_goal)
    quotas.check_storage(tx, tenant_id)
    if new_goal.deadline_at and new_goal.deadline_at <= tx.now:
        raise Invalid("deadline must be in the future.")
    if goal_store.count_open(tx, tenant_id) >= OPEN_GOALS_LIMIT:
        raise Conflict(f"A tenant can have at most {OPEN_GOALS_LIMIT:,} open goals. Abandon one, or wait until one ends.")
    is_proposal = status == "paused"
    goal = goal_store.insert(
        tx,
        Goal(
            id=0,
            tenant_id=tenant_id,
            source=source,
            description=new_goal.description,
            success_criteria=new_goal.success_criteria,
            evidence=text.check_text(evidence, "evidence", DESCRIPTION_LIMIT),
            status=status,
            priority=new_goal.priority,
            pause_kind="proposal" if is_proposal else "",
            pause_reason=PROPOSAL_REASON if is_proposal else "",
            replan_count=0,
            plan_no=0,
            replan_why="",
            run_id=None,
            budget=new_goal.budget,
            deadline_at=new_goal.deadline_at,
            created_at=tx.now,
            updated_at=tx.now,
            ended_at=0,
            repository=new_goal.repository,
            checks=new_goal.checks,
            proof="unproven" if new_goal.checks else "none",
            repeat_of=new_goal.repeat_of,
        ),
    )
    data = {"source": source, "description": goal.description, "success_criteria": goal.success_criteria, "evidence": evidence}
    entry = {**data, "repeat_of": goal.repeat_of} if goal.repeat_of else data
    journal.append(tx, tenant_id, goal.id, "goal_proposed" if is_proposal else "goal_set", entry)
    return goal


def begin(tx: Transaction, goal: Goal, limits: Limits) -> Goal:
    """Create the goal's main agent and the job that runs it."""
    run = Run(
        id=str(uuid4()),
        tenant_id=goal.tenant_id,
        conversation_id=0,
        turn_id=None,
        parent_run_id=None,
        role="index",
        task=goal.description,
        depth=0,
        status="running",
        created_at=tx.now,
        updated_at=tx.now,
        limit=limits.sub_agent_iterations,
        goal_id=goal.id,
        repository=goal.repository,
    )
    run_store.insert(tx, run)
    enqueue(tx, goal, run.id, limits)
    runs.emit_changed(tx, run)
    return save(tx, goal._replace(run_id=run.id))


def set_repository(tx: Transaction, goal: Goal, run: Run, repository: str) -> None:
    """Let a goal that has no plan yet, and names no repository, use the one that its main agent's role names."""
    runs.set_repository(tx, run, repository)
    save(tx, goal._replace(repository=repository))


def enqueue(tx: Transaction, goal: Goal, run_id: str, limits: Limits) -> None:
    payload = {"goal_id": goal.id, "description": text.to_one_line(goal.description)[: text.SUBJECT_LIMIT]}
    jobs.create(tx, goal.tenant_id, JOB_KIND, payload, job_id=run_id, max_attempts=limits.attempts)


def save(tx: Transaction, goal: Goal) -> Goal:
    goal = goal._replace(updated_at=tx.now)
    goal_store.save(tx, goal)
    journal.emit_goal_at_commit(tx, goal.tenant_id, goal.id)
    return goal


def get(tx: Transaction, tenant_id: int, goal_id: int) -> Goal:
    goal = goal_store.find(tx, tenant_id, goal_id)
    if goal is None:
        raise NotFound(NOT_FOUND_MESSAGE.format(goal_id))
    return goal


def get_locked(tx: Transaction, tenant_id: int, goal_id: int) -> Goal:
    """Lock and return the goal, waiting for a step in progress. All writers lock its job first, which prevents deadlocks."""
    goal = get(tx, tenant_id, goal_id)
    if goal.run_id:
        job_store.find_locked(tx, tenant_id, goal.run_id)
    locked = goal_store.find_locked(tx, tenant_id, goal_id)
    assert locked is not None
    return locked


# Pausing


def pause(tx: Transaction, tenant_id: int, goal_id: int) -> Goal:
    """Pause the goal: nothing new starts. Running sub-agents finish their work, and their outcomes are kept."""
    goal = get_locked(tx, tenant_id, goal_id)
    if goal.status != "active" and goal.pause_kind != "budget":  # a goal that waits for budget can be paused too
        raise Conflict(f"Goal #{goal_id} is {goal.status}; only an active goal can be paused.")
    return mark_paused(tx, goal, "operator", "Paused by the operator.")


def mark_paused(tx: Transaction, goal: Goal, kind: PauseKind, reason: str) -> Goal:
    """Pause the goal and delay its job."""
    if goal.run_id:
        job = job_store.find_locked(tx, goal.tenant_id, goal.run_id)
        if job and job.state in ("queued", "running", "delayed"):
            jobs.delay(tx, job)
        mark_run(tx, goal, "waiting")
    journal.append(tx, goal.tenant_id, goal.id, "paused", {"kind": kind, "reason": reason})
    return save(tx, goal._replace(status="paused", pause_kind=kind, pause_reason=reason))


def escalate(tx: Transaction, goal: Goal, kind: PauseKind, reason: str) -> Goal:
    """Pause the goal and ask the operator for a decision."""
    goal = mark_paused(tx, goal, kind, reason)
    question = f"Goal #{goal.id} is paused: {format_description(goal)} {reason} Continue, replan with a note, or abandon it?"
    notices.notify_about_goal(tx, goal, "decision", question)
    return goal


def pause_for_fault(tx: Transaction, goal: Goal, job: Job, reason: str) -> Goal:
    """Pause the goal because of a fault that replanning cannot fix. The job is marked dead; retrying it resumes the goal."""
    goal = mark_paused(tx, goal, "fault", reason)
    jobs.fail_permanently(tx, job, reason)
    what_happened = f"Goal #{goal.id} stopped because of a fault: {format_description(goal)} {reason}"
    notices.notify_about_goal(tx, goal, "fault", f"{what_happened} Resume it when the fault is fixed, or abandon it.")
    return goal


def resume(tx: Transaction, tenant_id: int, goal_id: int, limits: Limits = DEFAULT_LIMITS) -> Goal:
    """Continue a paused goal where it stopped."""
    halts.check(tx)
    goal = get_locked(tx, tenant_id, goal_id)
    if goal.status != "paused":
        raise Conflict(f"Goal #{goal_id} is {goal.status}; only a paused goal can be resumed.")
    return mark_active(tx, goal._replace(replan_count=0) if goal.pause_kind == "replans" else goal, limits)


def mark_active(tx: Transaction, goal: Goal, limits: Limits) -> Goal:
    """Continue the goal and clear the limits that it has hit: an expired deadline or an exhausted budget."""
    overdue = bool(goal.deadline_at) and goal.deadline_at <= tx.now
    overspent = bool(goal.budget) and run_store.sum_goal_cost(tx, goal.tenant_id, goal.id) >= goal.budget
    waits_for_money = overspent or goal.pause_kind == "goal_budget"
    journal.append(tx, goal.tenant_id, goal.id, "resumed", {"after": goal.pause_kind})
    notices.settle_goal(tx, goal.tenant_id, goal.id)
    goal = goal._replace(
        status="active",
        pause_kind="",
        pause_reason="",
        deadline_at=0 if overdue else goal.deadline_at,
        budget=0 if overspent else goal.budget,
    )
    if goal.run_id is None:  # it was only proposed so far
        return begin(tx, goal, limits)
    job = job_store.find_locked(tx, goal.tenant_id, goal.run_id)
    if job is None:  # the dead job was dropped
        enqueue(tx, goal, goal.run_id, limits)
    elif job.state in ("delayed", "dead"):
        jobs.move(tx, job, "queued", attempts=0, errors="[]")
    if waits_for_money:
        job_store.wake_waiting_runs(tx, goal.tenant_id)  # its sub-agents were waiting for budget
    mark_run(tx, goal, "running")
    return save(tx, goal)


# Deciding


def decide(
    tx: Transaction, tenant_id: int, goal_id: int, action: Decision, note: str = "", limits: Limits = DEFAULT_LIMITS
) -> Goal:
    """Apply the operator's decision about a paused goal."""
    halts.check(tx)
    note = text.check_text(note.strip(), "note", DESCRIPTION_LIMIT)
    goal = get_locked(tx, tenant_id, goal_id)
    if goal.status != "paused":
        raise Conflict(f"Goal #{goal_id} is {goal.status}; only a paused goal needs a decision.")
    journal.append(tx, tenant_id, goal_id, "decided", {"action": action, "note": note})
    match action:
        case "abandon":
            return mark_abandoned(tx, goal, note or "The operator abandoned it.")
        case "replan":
            why = f"The operator asked for a new plan{f': {note}' if note else '.'}"
            room = max(0, goal.replan_count - 1)  # leaves room for the requested replan
            return mark_active(tx, goal._replace(replan_why=why if goal.plan_no else "", replan_count=room), limits)
        case "continue":
            if goal.pause_kind == "escalation":  # the operator accepts the divergences, so they no longer require a new plan
                goal_store.accept_divergences(tx, goal.tenant_id, goal.id)
                goal = goal._replace(replan_why="")
            return mark_active(tx, goal._replace(replan_count=0), limits)


def abandon(tx: Transaction, tenant_id: int, goal_id: int) -> Goal:
    """End the goal for good. Completed work is kept, and its agents stop."""
    goal = get_locked(tx, tenant_id, goal_id)
    if goal.ended:
        raise Conflict(f"Goal #{goal_id} has already ended: {goal.status}.")
    return mark_abandoned(tx, goal, "The operator abandoned it.")


def mark_abandoned(tx: Transaction, goal: Goal, reason: str) -> Goal:
    journal.append(tx, goal.tenant_id, goal.id, "abandoned", {"reason": reason})
    for sub_goal in goal_store.list_sub_goals(tx, goal.tenant_id, goal.id):
        if sub_goal.status in OPEN_STATUSES:
            sub_goals.skip(tx, sub_goal, "The goal was abandoned.")
    return end(tx, goal._replace(pause_kind="", pause_reason=reason), "abandoned", "canceled")


def complete(tx: Transaction, goal: Goal, summary: str) -> Goal:
    journal.append(tx, goal.tenant_id, goal.id, "completed", {"summary": summary})
    return end(tx, goal._replace(pause_kind="", pause_reason=""), "completed", "completed", summary)


def end(tx: Transaction, goal: Goal, status: GoalStatus, run_status: RunStatus, summary: str = "") -> Goal:
    goal_store.end_cycle(tx, goal.tenant_id, goal.id, "completed")
    if goal.status == "paused":
        notices.settle_goal(tx, goal.tenant_id, goal.id)
    run = run_store.find(tx, goal.tenant_id, goal.run_id) if goal.run_id else None
    if run and not run.ended:
        runs.cancel_descendants(tx, run)
        runs.end_child(tx, run, RunEnd(run_status, summary))
    return save(tx, goal._replace(status=status, replan_why="", ended_at=tx.now))


# Waiting for budget: the whole goal or turn waits when one of its runs finds the pool empty


def pause_run(tx: Transaction, run: Run, reason: str) -> None:
    """Pause the goal or turn of a run that finds the pool empty, and notify the operator. It resumes automatically."""
    if run.goal_id is not None:
        goal = pause_for_budget(tx, run.tenant_id, run.goal_id, reason)
        reason = f"Goal #{goal.id} is paused: {format_description(goal)} {reason}"
    elif run.turn_id is not None:
        turns.pause(tx, run, reason)
    notices.notify_once(tx, run, "budget", reason)


def resume_run(tx: Transaction, run: Run) -> Run:
    """Continue a run whose pause is over, together with its goal or turn."""
    run = run._replace(status="running", updated_at=tx.now)
    if run.goal_id is not None:
        resume_after_budget(tx, run.tenant_id, run.goal_id)
    elif run.turn_id is not None:
        turns.resume(tx, run)
    if run.parent_run_id is not None or run.is_main:
        runs.emit_changed(tx, run)
    return run


def pause_for_budget(tx: Transaction, tenant_id: int, goal_id: int, reason: str) -> Goal:
    """Pause the goal unless it is paused or ended already."""
    goal = goal_store.find_locked(tx, tenant_id, goal_id)
    if goal is None or goal.status != "active":
        return goal or get(tx, tenant_id, goal_id)
    journal.append(tx, tenant_id, goal_id, "paused", {"kind": "budget", "reason": reason})
    return save(tx, goal._replace(status="paused", pause_kind="budget", pause_reason=reason))


def can_spend(tx: Transaction, goal: Goal) -> bool:
    """Whether the goal's own budget has something left. If not, ask the operator to decide."""
    cost = run_store.sum_goal_cost(tx, goal.tenant_id, goal.id) if goal.budget else 0
    if not goal.budget or cost < goal.budget:
        return True
    if goal.status == "active":
        spent = f"${to_dollars(cost):.4f} of ${to_dollars(goal.budget):.4f}"
        escalate(tx, goal, "goal_budget", f"It has used up its budget: {spent}.")
    return False


def resume_after_budget(tx: Transaction, tenant_id: int, goal_id: int) -> None:
    goal = goal_store.find_locked(tx, tenant_id, goal_id)
    if goal and goal.status == "paused" and goal.pause_kind == "budget":
        journal.append(tx, tenant_id, goal_id, "resumed", {"after": "budget"})
        save(tx, goal._replace(status="active", pause_kind="", pause_reason=""))


# The main agent


def begin_inline(tx: Transaction, run: Run, sub_goal: SubGoal, message: str, limit: int) -> Run:
    """Let the main agent work on a sub-goal itself, starting with this message of its transcript."""
    n = run_store.get_next_message_number(tx, run.tenant_id, run.id)
    run_store.append_messages(tx, run.tenant_id, run.id, n, message)
    run = run._replace(sub_goal_id=sub_goal.id, begins_at=n, iterations=0, limit=limit, refusals=0, plan_mark="")
    run_store.save(tx, run)
    sub_goals.start(tx, sub_goal, run)
    return run


def end_inline(tx: Transaction, run: Run, end: RunEnd) -> Run:
    """End the sub-goal that the main agent works on, so that it is free for the next one."""
    waiting.cancel_open(tx, run)
    run = spending.release(tx, run)
    sub_goal = goal_store.find_sub_goal(tx, run.tenant_id, run.sub_goal_id or 0)
    if sub_goal and sub_goal.status == "in-progress":
        sub_goals.end(tx, sub_goal, run, end.as_result())
    run = run._replace(sub_goal_id=None, hint="")
    run_store.save(tx, run)
    return run


def mark_run(tx: Transaction, goal: Goal, status: RunStatus) -> None:
    """Set the visible status of the main agent, and release the budget reserved for its next model call."""
    run = run_store.find(tx, goal.tenant_id, goal.run_id or "")
    if run and not run.ended and (run.status != status or run.reserved):
        run = spending.release(tx, run)._replace(status=status, updated_at=tx.now)
        run_store.save(tx, run)
        runs.emit_changed(tx, run)


def format_description(goal: Goal) -> str:
    return f"“{text.to_one_line(goal.description)[:200]}”."
