"""Derive the next action for a goal from its rows. Actions that need no model are applied here, and then the checks run again."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from headway.actions import goals, journal, plans, runs, sub_goals
from headway.agents import transcript
from headway.agents.delegation import Assignment, start_sub_agent
from headway.agents.loop.structured import FormResult
from headway.autonomy import check_ins, evaluator, planner, prompts, resumption
from headway.autonomy.pursuit_step import AskQuestion, PursuitStep, Rest, WorkInline
from headway.ledger.errors import Invalid
from headway.ledger.goal import Goal, SubGoal, find_replan_reason, has_replan_reason
from headway.ledger.text import to_one_line
from headway.storage.stores import goals as goal_store
from headway.storage.stores import pursuits as pursuit_store
from headway.storage.stores import runs as run_store

REASON_LIMIT: Final = 1_000


def advance(stage: PursuitStep) -> AskQuestion | WorkInline | Rest | None:
    if stage.goal.status == "paused" and not stage.is_out_of_budget:
        return Rest()
    for look in CHECKS:
        found = look(stage)
        if found is not CLEAR:
            return found  # type: ignore[return-value]
    return Rest()


class Clear(NamedTuple):
    """The result of a check that found nothing to do."""


CLEAR: Final = Clear()
CheckResult = AskQuestion | WorkInline | Rest | Clear | None


def enforce_bounds(stage: PursuitStep) -> CheckResult:
    """Enforce the goal's deadline and budget."""
    goal, tx = stage.goal, stage.tx
    if goal.status != "active":
        return CLEAR
    if goal.deadline_at and tx.now >= goal.deadline_at:
        goals.escalate(tx, goal, "escalation", "Its deadline has passed.")
        return None
    return CLEAR if goals.can_spend(tx, goal) else None


def retry_question(stage: PursuitStep) -> CheckResult:
    return stage.again or CLEAR


def ensure_cycle(stage: PursuitStep) -> CheckResult:
    """Record the start of a pursuit cycle, so that an interrupted cycle can be detected.

    Sub-goals that a crash interrupted are reviewed before they resume.
    """
    if goal_store.open_cycle(stage.tx, stage.goal.tenant_id, stage.goal.id):
        journal.append(stage.tx, stage.goal.tenant_id, stage.goal.id, "cycle_began", {"plan_no": stage.goal.plan_no})
    half_done = stage.list_interrupted()
    if half_done:
        return AskQuestion(resumption.build_question(stage.goal, half_done), apply_resumption)
    return CLEAR


def apply_resumption(stage: PursuitStep, filled: FormResult[resumption.ResumptionForm]) -> None:
    resumption.apply_decisions(stage.tx, stage.goal, stage.list_interrupted(), filled)


def evaluate_by_metrics(stage: PursuitStep) -> CheckResult:
    """Judge ended sub-goals by metrics before replanning, so that a bad outcome counts against the plan that produced it."""
    seen = [(one, found) for one in stage.list_unjudged() if (found := evaluator.evaluate_by_metric(one))]
    for one, found in seen:
        sub_goals.judge(stage.tx, stage.goal, one, *found)
    return None if seen else CLEAR


def ensure_plan(stage: PursuitStep) -> CheckResult:
    goal = stage.goal
    if goal.plan_no == 0:
        return AskQuestion(planner.build_plan_question(goal, stage.means.roles, stage.experience()), apply_plan)
    why = find_replan_reason(goal, stage.known) if has_replan_reason(goal, pursuit_store.list_doubts(stage.tx, goal)) else None
    if why is None:
        return CLEAR
    if goal.replan_count >= stage.limits.replans:
        count = f"It was replanned {goal.replan_count} times, which is the limit."
        goals.escalate(stage.tx, goal, "replans", f"{count} The last reason: {why[:REASON_LIMIT]}")
        return None
    question = planner.build_replan_question(goal, stage.means.roles, stage.experience(), stage.known, why)
    return AskQuestion(question, partial(apply_replan, why=why))


def apply_plan(stage: PursuitStep, filled: FormResult[planner.PlanForm]) -> None:
    if filled.form is None:
        handle_missing_plan(stage, filled)
        return
    plans.apply_plan(stage.tx, stage.goal, planner.to_planned_steps(filled.form, stage.known), "")


def handle_missing_plan(stage: PursuitStep, filled: FormResult[Any]) -> None:
    if filled.failure:
        goals.pause_for_fault(stage.tx, stage.goal, stage.held, f"No plan could be made: {filled.failure}")
    else:
        goals.escalate(stage.tx, stage.goal, "escalation", f"No valid plan could be made: {filled.complaint[:REASON_LIMIT]}")


def apply_replan(stage: PursuitStep, filled: FormResult[planner.ReplanForm], why: str) -> None:
    tx, goal, form = stage.tx, stage.goal, filled.form
    if form is None:
        handle_missing_plan(stage, filled)
        return
    if form.give_up.strip():
        reason = form.give_up.strip()[:REASON_LIMIT]
        goals.mark_abandoned(tx, goal, reason)
        stage.notify_operator("given_up", f"Goal #{goal.id} was given up: {goals.format_description(goal)} {reason}")
        return
    try:
        planner.check_plan(form, stage.known, stage.means.roles)  # sub-goals may have ended while the model was planning
    except Invalid:
        return  # the next step asks again
    steps = planner.to_planned_steps(form, stage.known)
    if plans.is_unchanged(stage.known, steps):
        goals.escalate(tx, goal, "escalation", f"A new plan was due ({why[:REASON_LIMIT]}), but it would change nothing.")
        return
    evaluate_by_metrics(stage)
    goal = goals.save(tx, goal._replace(replan_count=goal.replan_count + 1))
    reason = f"{why} {form.reason}".strip()
    if form.new_goal.strip():
        goal = change_description(stage, goal, form.new_goal.strip()[: goals.DESCRIPTION_LIMIT], reason)
    goal_store.end_cycle(tx, goal.tenant_id, goal.id, "completed")
    goal_store.open_cycle(tx, goal.tenant_id, goal.id)
    plans.apply_plan(tx, goal, steps, reason)


def change_description(stage: PursuitStep, goal: Goal, description: str, reason: str) -> Goal:
    """Change the goal's description, and notify the operator of the reason."""
    renamed = goal._replace(description=description)
    cause = f"Goal #{goal.id} was replanned (attempt {goal.replan_count}): {to_one_line(reason)[:REASON_LIMIT]}"
    stage.notify_operator(
        "replanned", f"{cause} The goal was {goals.format_description(goal)} It is now {goals.format_description(renamed)}"
    )
    return goals.save(stage.tx, renamed)


def start_agents(stage: PursuitStep) -> CheckResult:
    """Start ready sub-goals as sub-agents, by priority, up to the limit on concurrent ones."""
    room = stage.means.limits.per_parent - len(stage.list_running())
    waiting = pursuit_store.list_ready(stage.tx, stage.goal, "agent", room) if room > 0 and not stage.is_out_of_budget else []
    if not waiting:
        return CLEAR
    for one in waiting:
        given = prompts.render_task_context(one, pursuit_store.list_dependencies(stage.tx, one))
        assignment = Assignment(stage.means.roles.find(one.role), prompts.render_task(one), given)
        child = start_sub_agent(stage.tx, stage.run, assignment, stage.means.limits, one.id)
        sub_goals.start(stage.tx, one, child)
    stage.clear_failures()
    return None


def evaluate_outcomes(stage: PursuitStep) -> CheckResult:
    """Judge the next ended sub-goal with a model. Runs after new sub-agents have been started, so that they need not wait."""
    waiting = stage.list_unjudged()
    if not waiting:
        return CLEAR
    one = waiting[0]
    return AskQuestion(evaluator.build_outcome_question(stage.goal, one), partial(apply_evaluation, sub_goal_id=one.id))


def apply_evaluation(stage: PursuitStep, filled: FormResult[evaluator.EvaluationForm], sub_goal_id: int) -> None:
    sub_goals.judge(stage.tx, stage.goal, stage.find(sub_goal_id), *evaluator.to_evaluation(filled))


def work_inline(stage: PursuitStep) -> CheckResult:
    if stage.run.sub_goal_id is not None:
        return WorkInline(stage.run)
    waiting = pursuit_store.list_ready(stage.tx, stage.goal, "inline", 1) if not stage.is_out_of_budget else []
    if not waiting:
        return CLEAR
    one = waiting[0]
    done = pursuit_store.list_last_completed(stage.tx, stage.goal, prompts.DONE_LIMIT)
    opening = prompts.build_work(stage.goal, one, done, pursuit_store.list_dependencies(stage.tx, one))
    run = goals.begin_inline(stage.tx, stage.run, one, transcript.encode(opening), stage.means.limits.sub_agent_iterations)
    stage.clear_failures()
    return WorkInline(run)  # all earlier checks are clear


def check_on_agents(stage: PursuitStep) -> CheckResult:
    """Check in on the sub-agents that are due."""
    one = next((one for one in stage.list_running() if check_ins.compute_due_at(one, stage.limits) <= stage.tx.now), None)
    if one is None:
        return CLEAR
    run = runs.get(stage.tx, one.tenant_id, one.run_id or "")
    looked, why = check_ins.check_progress(stage.tx, one, run, stage.limits)
    if not why or stage.is_out_of_budget:
        sub_goals.change(stage.tx, one, **looked)
        return None
    if one.interventions >= check_ins.MAX_INTERVENTIONS:
        check_ins.intervene(stage.tx, one, run, None, why)
        return None
    return AskQuestion(
        check_ins.build_question(stage.goal, one, run, why), partial(apply_intervention, sub_goal_id=one.id, why=why)
    )


def apply_intervention(stage: PursuitStep, filled: FormResult[check_ins.InterventionForm], sub_goal_id: int, why: str) -> None:
    one = stage.find(sub_goal_id)
    run = run_store.find(stage.tx, one.tenant_id, one.run_id or "")
    if one.status == "in-progress" and run and not run.ended:  # otherwise it has ended in the meantime
        check_ins.intervene(stage.tx, one, run, filled, why)


def await_agents(stage: PursuitStep) -> CheckResult:
    """Wait until a sub-agent ends, the next check-in is due, or the deadline passes."""
    times = [check_ins.compute_due_at(one, stage.limits) for one in stage.list_running()]
    if not times:
        return CLEAR
    return Rest(min([*times, *([stage.goal.deadline_at] if stage.goal.deadline_at > stage.tx.now else [])]))


def conclude(stage: PursuitStep) -> CheckResult:
    """Conclude the goal after all sub-goals have ended."""
    tx, goal = stage.tx, stage.goal
    if stage.is_out_of_budget and goal.pending:
        goals.resume_after_budget(tx, goal.tenant_id, goal.id)  # no sub-agent is left that would notice new budget
        return None
    if not goal.completed:
        goals.escalate(tx, goal, "escalation", "All sub-goals have ended, and none was completed.")
        return None
    if goal.success_criteria:
        return AskQuestion(evaluator.build_goal_question(goal, stage.known), apply_verdict)
    goals.complete(tx, goal, build_summary(stage.known))
    return None


def apply_verdict(stage: PursuitStep, filled: FormResult[evaluator.VerdictForm]) -> None:
    missing = evaluator.describe_unmet(filled)
    journal.append(stage.tx, stage.goal.tenant_id, stage.goal.id, "goal_evaluated", {"met": not missing, "reason": missing})
    if missing:
        goals.save(stage.tx, stage.goal._replace(replan_why=missing))
    else:
        goals.complete(stage.tx, stage.goal, build_summary(stage.known))


def build_summary(known: list[SubGoal]) -> str:
    """Join the outcomes of the completed sub-goals on which no other depends."""
    needed = {below for one in known for below in one.depends_on}
    ends = [one for one in known if one.status == "completed" and one.id not in needed]
    return "\n\n".join(prompts.get_summary(one) for one in ends)[: sub_goals.SUMMARY_LIMIT]


CHECKS: Final[tuple[Callable[[PursuitStep], CheckResult], ...]] = (
    enforce_bounds,
    retry_question,
    ensure_cycle,
    evaluate_by_metrics,
    ensure_plan,
    start_agents,
    evaluate_outcomes,
    check_on_agents,
    work_inline,
    await_agents,
    conclude,
)
