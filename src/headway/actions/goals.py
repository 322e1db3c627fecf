"""Goals: set, proposed, paused, decided about, given up, achieved. The pursuit of one is a job like any other."""

from typing import Any, NamedTuple
from uuid import uuid4

from headway.actions import halts, jobs, journal, notices, runs, spending, sub_goals
from headway.actions.notices import About
from headway.ledger import text
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.goal import OPEN, Decision, Goal, GoalStatus, PauseKind, Source, SubGoal
from headway.ledger.job import Job
from headway.ledger.run import Limits, Run, RunStatus, dollars
from headway.storage import goal_store, job_store, run_store
from headway.storage.transaction import Transaction

GOAL = "goal"  # the kind of its job
UNENDED_LIMIT = 1_000  # of a tenant
DESCRIPTION_LIMIT = 10_000
LOWEST_PRIORITY = 1_000
DEFAULT_PRIORITY = 50
DEFAULTS = Limits()
UNKNOWN = "No goal #{}."
ASKS = "Continue, replan with a note, or abandon it?"


class NewGoal(NamedTuple):
    description: str
    success_criteria: str = ""
    priority: int = DEFAULT_PRIORITY
    budget: int = 0
    deadline_at: int = 0


def add(
    tx: Transaction,
    tenant_id: int,
    wanted: NewGoal,
    limits: Limits = DEFAULTS,
    source: Source = "operator-injected",
    evidence: str = "",
) -> Goal:
    """Write it down, with a main agent that begins to pursue it at once."""
    halts.check(tx)
    goal = insert(tx, tenant_id, wanted, source, "active", evidence)
    return begin(tx, goal, limits)


def propose(tx: Transaction, tenant_id: int, wanted: NewGoal, evidence: str) -> Goal:
    """An agent found it worth doing. It waits for the operator's yes."""
    goal = insert(tx, tenant_id, wanted, "agent-discovered", "paused", evidence)
    ask = f"An agent proposes goal #{goal.id}: {shown(goal)} Evidence: {text.one_line(evidence)[:300]} Continue, or abandon it?"
    notices.notify(tx, tenant_id, "proposal", ask, About(goal_id=goal.id))
    return goal


def checked(wanted: NewGoal) -> NewGoal:
    """Whatever the clock says."""
    description = text.safe(wanted.description.strip(), "description", DESCRIPTION_LIMIT)
    if not description:
        raise Invalid("description must not be blank: say what is to be achieved.")
    if not 0 <= wanted.priority <= LOWEST_PRIORITY:
        raise Invalid(f"priority must be from 0 (the highest) to {LOWEST_PRIORITY:,}.")
    criteria = text.safe(wanted.success_criteria.strip(), "success_criteria", DESCRIPTION_LIMIT)
    return wanted._replace(description=description, success_criteria=criteria)


def insert(tx: Transaction, tenant_id: int, wanted: NewGoal, source: Source, status: GoalStatus, evidence: str) -> Goal:
    wanted = checked(wanted)
    if wanted.deadline_at and wanted.deadline_at <= tx.now:
        raise Invalid("deadline has passed already.")
    if goal_store.count_unended(tx, tenant_id) >= UNENDED_LIMIT:
        raise Conflict(f"A tenant has at most {UNENDED_LIMIT:,} goals that have not ended.")
    proposed = status == "paused"
    goal = goal_store.insert(
        tx,
        Goal(
            id=0,
            tenant_id=tenant_id,
            source=source,
            description=wanted.description,
            success_criteria=wanted.success_criteria,
            evidence=text.safe(evidence, "evidence", DESCRIPTION_LIMIT),
            status=status,
            priority=wanted.priority,
            pause_kind="proposal" if proposed else "",
            pause_reason="An agent proposed it. Continue starts it, abandon declines." if proposed else "",
            replan_count=0,
            plan_no=0,
            replan_why="",
            run_id=None,
            budget=wanted.budget,
            deadline_at=wanted.deadline_at,
            created_at=tx.now,
            updated_at=tx.now,
            ended_at=0,
        ),
    )
    about = {"source": source, "description": goal.description, "success_criteria": goal.success_criteria, "evidence": evidence}
    journal.append(tx, tenant_id, goal.id, "goal_proposed" if proposed else "goal_set", about)
    return goal


def begin(tx: Transaction, goal: Goal, limits: Limits) -> Goal:
    """Its main agent, and the job that keeps it going."""
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
    )
    run_store.insert(tx, run)
    enqueue(tx, goal, run.id, limits)
    runs.tell(tx, run)
    return save(tx, goal._replace(run_id=run.id))


def enqueue(tx: Transaction, goal: Goal, run_id: str, limits: Limits) -> None:
    payload = {"goal_id": goal.id, "description": text.one_line(goal.description)[: text.SUBJECT_LIMIT]}
    jobs.new(tx, goal.tenant_id, GOAL, payload, job_id=run_id, max_attempts=limits.attempts)


def save(tx: Transaction, goal: Goal) -> Goal:
    goal = goal._replace(updated_at=tx.now)
    goal_store.save(tx, goal)
    journal.announce(tx, goal.tenant_id, goal.id)
    return goal


def get(tx: Transaction, tenant_id: int, goal_id: int) -> Goal:
    goal = goal_store.get(tx, tenant_id, goal_id)
    if goal is None:
        raise NotFound(UNKNOWN.format(goal_id))
    return goal


def held_still(tx: Transaction, tenant_id: int, goal_id: int) -> Goal:
    """The goal as it is once nobody is in the middle of a step of it: its job is held first, as by all who move it."""
    goal = get(tx, tenant_id, goal_id)
    if goal.run_id:
        job_store.get_locked(tx, tenant_id, goal.run_id)
    held = goal_store.get_locked(tx, tenant_id, goal_id)
    assert held is not None
    return held


# Pausing


def pause(tx: Transaction, tenant_id: int, goal_id: int) -> Goal:
    """Nothing new begins. Sub-agents at work end what they are at, and their outcomes are kept."""
    goal = held_still(tx, tenant_id, goal_id)
    if goal.status != "active" and goal.pause_kind != "budget":  # one that only waits for money may be told to wait for more
        raise Conflict(f"Goal #{goal_id} is {goal.status}; only an active one is paused.")
    return rest(tx, goal, "operator", "Paused by the operator.")


def rest(tx: Transaction, goal: Goal, kind: PauseKind, reason: str) -> Goal:
    """It waits, and its job with it."""
    if goal.run_id:
        job = job_store.get_locked(tx, goal.tenant_id, goal.run_id)
        if job and job.state in ("queued", "running", "delayed"):
            jobs.sleep(tx, job)
        show_run(tx, goal, "waiting")
    journal.append(tx, goal.tenant_id, goal.id, "paused", {"kind": kind, "reason": reason})
    return save(tx, goal._replace(status="paused", pause_kind=kind, pause_reason=reason))


def escalate(tx: Transaction, goal: Goal, kind: PauseKind, reason: str) -> Goal:
    """A person has to decide."""
    goal = rest(tx, goal, kind, reason)
    ask = f"Goal #{goal.id} is paused: {shown(goal)} {reason} {ASKS}"
    notices.notify(tx, goal.tenant_id, "decision", ask, About(goal_id=goal.id))
    return goal


def fault(tx: Transaction, goal: Goal, job: Job, reason: str) -> Goal:
    """Something is wrong that no plan can mend. The job is dead, and a person who retries it lets the goal go on."""
    goal = rest(tx, goal, "fault", reason)
    jobs.die(tx, job, reason)
    ask = f"Goal #{goal.id} is stopped by a fault: {shown(goal)} {reason} Resume it when that is mended, or abandon it."
    notices.notify(tx, goal.tenant_id, "fault", ask, About(goal_id=goal.id))
    return goal


def resume(tx: Transaction, tenant_id: int, goal_id: int, limits: Limits = DEFAULTS) -> Goal:
    """It goes on where it stopped."""
    halts.check(tx)
    goal = held_still(tx, tenant_id, goal_id)
    if goal.status != "paused":
        raise Conflict(f"Goal #{goal_id} is {goal.status}; only a paused one is resumed.")
    return go_on(tx, goal._replace(replan_count=0) if goal.pause_kind == "replans" else goal, limits)


def go_on(tx: Transaction, goal: Goal, limits: Limits) -> Goal:
    """Whatever stood in its way stands there no longer: also a deadline or a budget that it has passed."""
    overdue = bool(goal.deadline_at) and goal.deadline_at <= tx.now
    overspent = bool(goal.budget) and run_store.cost_of_goal(tx, goal.tenant_id, goal.id) >= goal.budget
    journal.append(tx, goal.tenant_id, goal.id, "resumed", {"after": goal.pause_kind})
    goal = goal._replace(
        status="active",
        pause_kind="",
        pause_reason="",
        deadline_at=0 if overdue else goal.deadline_at,
        budget=0 if overspent else goal.budget,
    )
    if goal.run_id is None:  # it was only a proposal
        return begin(tx, goal, limits)
    job = job_store.get_locked(tx, goal.tenant_id, goal.run_id)
    if job is None:  # it was dead, and dropped
        enqueue(tx, goal, goal.run_id, limits)
    elif job.state in ("delayed", "dead"):
        jobs.move(tx, job, "queued", attempts=0, errors="[]")
    if overspent:
        job_store.look_again(tx, goal.tenant_id)  # its sub-agents waited for that
    show_run(tx, goal, "running")
    return save(tx, goal)


# Deciding


def decide(tx: Transaction, tenant_id: int, goal_id: int, action: Decision, note: str = "", limits: Limits = DEFAULTS) -> Goal:
    """The operator's answer for a goal that waits for one."""
    halts.check(tx)
    note = text.safe(note.strip(), "note", DESCRIPTION_LIMIT)
    goal = held_still(tx, tenant_id, goal_id)
    if goal.status != "paused":
        raise Conflict(f"Goal #{goal_id} is {goal.status}; there is nothing to decide.")
    journal.append(tx, tenant_id, goal_id, "decided", {"action": action, "note": note})
    match action:
        case "abandon":
            return give_up(tx, goal, note or "The operator abandoned it.")
        case "replan":
            why = f"The operator asks for a new plan{f': {note}' if note else '.'}"
            room = max(0, goal.replan_count - 1)  # for the one that was asked for
            return go_on(tx, goal._replace(replan_why=why if goal.plan_no else "", replan_count=room), limits)
        case "continue":
            if goal.pause_kind == "escalation":  # what it was about is accepted: it calls for no new plan any more
                goal_store.accept_divergences(tx, goal.tenant_id, goal.id)
                goal = goal._replace(replan_why="")
            return go_on(tx, goal._replace(replan_count=0), limits)


def abandon(tx: Transaction, tenant_id: int, goal_id: int) -> Goal:
    """For good. What was done stays done; whoever works on it stops."""
    goal = held_still(tx, tenant_id, goal_id)
    if goal.ended:
        raise Conflict(f"Goal #{goal_id} has already ended: {goal.status}.")
    return give_up(tx, goal, "The operator abandoned it.")


def give_up(tx: Transaction, goal: Goal, reason: str) -> Goal:
    journal.append(tx, goal.tenant_id, goal.id, "abandoned", {"reason": reason})
    for one in goal_store.sub_goals(tx, goal.tenant_id, goal.id):
        if one.status in OPEN:
            sub_goals.skip(tx, one, "The goal was abandoned.")
    return end(tx, goal._replace(pause_kind="", pause_reason=reason), "abandoned", "canceled")


def complete(tx: Transaction, goal: Goal, summary: str) -> Goal:
    journal.append(tx, goal.tenant_id, goal.id, "completed", {"summary": summary})
    return end(tx, goal._replace(pause_kind="", pause_reason=""), "completed", "completed", summary)


def end(tx: Transaction, goal: Goal, status: GoalStatus, run_status: RunStatus, summary: str = "") -> Goal:
    goal_store.end_cycle(tx, goal.tenant_id, goal.id, "completed")
    run = run_store.get(tx, goal.tenant_id, goal.run_id) if goal.run_id else None
    if run and not run.ended:
        runs.cancel_below(tx, run)
        runs.end_child(tx, run, run_status, summary)
    return save(tx, goal._replace(status=status, replan_why="", ended_at=tx.now))


def pause_for_money(tx: Transaction, goal_id: int, run: Run, reason: str) -> bool:
    """Whichever of its runs finds the pool empty, it is the goal that waits. Whether this is news."""
    goal = goal_store.get_locked(tx, run.tenant_id, goal_id)
    if goal is None or goal.status != "active":
        return False
    journal.append(tx, goal.tenant_id, goal.id, "paused", {"kind": "budget", "reason": reason})
    save(tx, goal._replace(status="paused", pause_kind="budget", pause_reason=reason))
    return True


def can_spend(tx: Transaction, goal: Goal) -> bool:
    """Whether its own budget is not used up yet. If it is, a person has to decide."""
    cost = run_store.cost_of_goal(tx, goal.tenant_id, goal.id) if goal.budget else 0
    if not goal.budget or cost < goal.budget:
        return True
    if goal.status == "active":
        spent = f"${dollars(cost):.4f} of ${dollars(goal.budget):.4f}"
        escalate(tx, goal, "escalation", f"It has used up its budget: {spent}.")
    return False


def paid_again(tx: Transaction, tenant_id: int, goal_id: int) -> None:
    goal = goal_store.get_locked(tx, tenant_id, goal_id)
    if goal and goal.status == "paused" and goal.pause_kind == "budget":
        journal.append(tx, tenant_id, goal_id, "resumed", {"after": "budget"})
        save(tx, goal._replace(status="active", pause_kind="", pause_reason=""))


# The main agent


def begin_inline(tx: Transaction, run: Run, one: SubGoal, message: str, limit: int) -> Run:
    """Its main agent works on a sub-goal itself, from this message of its transcript on."""
    n = run_store.next_message(tx, run.tenant_id, run.id)
    run_store.append(tx, run.tenant_id, run.id, n, message)
    run = run._replace(sub_goal_id=one.id, begins_at=n, iterations=0, limit=limit, refusals=0, plan_mark="")
    run_store.save(tx, run)
    sub_goals.start(tx, one, run)
    return run


def end_inline(tx: Transaction, run: Run, status: RunStatus, summary: str, data: Any, error: str | None) -> Run:
    """The sub-goal that it is at has ended; it is free for the next."""
    one = goal_store.get_sub_goal(tx, run.tenant_id, run.sub_goal_id or 0)
    if one and one.status == "in-progress":
        result = {"status": status, "summary": summary, "data": data, "error": error}
        sub_goals.end(tx, one, run, result)
    run = run._replace(sub_goal_id=None, hint="")
    run_store.save(tx, run)
    return run


def show_run(tx: Transaction, goal: Goal, status: RunStatus) -> None:
    """What people see of the main agent. Whatever it was about to ask, nothing stays set aside for it."""
    run = run_store.get(tx, goal.tenant_id, goal.run_id or "")
    if run and not run.ended and (run.status != status or run.reserved):
        run = spending.release(tx, run)._replace(status=status, updated_at=tx.now)
        run_store.save(tx, run)
        runs.tell(tx, run)


def shown(goal: Goal) -> str:
    return f"“{text.one_line(goal.description)[:200]}”."
