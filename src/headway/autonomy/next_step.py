"""Derive the next action for a goal from its rows. Actions that need no model are applied here, and then the checks run again."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from headway.actions.goals import goals
from headway.actions.runs import runs, sub_goals
from headway.agents.checks.rulings import CheckCaller, describe_refusal, rule_on_checks
from headway.agents.checks.runner import NO_SANDBOX, CheckSubject
from headway.agents.delegation import Assignment, start_sub_agent
from headway.agents.loop.calls import proofs, proposals
from headway.agents.loop.context import load_context
from headway.agents.loop.structured import FormResult
from headway.agents.transcripts import transcript
from headway.autonomy import check_ins, evaluation, planner, prompts, recovery
from headway.autonomy.pursuit_step import AskQuestion, CommitWork, PursuitStep, Rest, RunGoalChecks, WorkInline
from headway.ledger.check import ReceiptDraft, decode_checks
from headway.ledger.errors import Invalid
from headway.ledger.goal import Goal, SubGoal, find_replan_reason, has_replan_reason
from headway.ledger.items.request_items import stands_alone
from headway.ledger.text import to_one_line
from headway.storage.stores import goals as goal_store
from headway.storage.stores import runs as run_store

REASON_LIMIT: Final = 1_000


def advance(step: PursuitStep) -> AskQuestion | RunGoalChecks | WorkInline | CommitWork | Rest | None:
    if step.goal.status == "paused" and not step.is_out_of_budget:
        return Rest()
    for check in CHECKS:
        result = check(step)
        if result is not CLEAR:
            return result  # type: ignore[return-value]
    return Rest()


class Clear(NamedTuple):
    """The result of a check that found nothing to do."""


CLEAR: Final = Clear()
CheckResult = AskQuestion | RunGoalChecks | WorkInline | CommitWork | Rest | Clear | None


def enforce_bounds(step: PursuitStep) -> CheckResult:
    """Enforce the goal's deadline and budget."""
    goal, tx = step.goal, step.tx
    if goal.status != "active":
        return CLEAR
    if goal.deadline_at and tx.now >= goal.deadline_at:
        goals.escalate(tx, goal, "deadline", "Its deadline has passed.")
        return None
    return CLEAR if goals.can_spend(tx, goal) else None


def retry_question(step: PursuitStep) -> CheckResult:
    return step.follow_up or CLEAR


def ensure_cycle(step: PursuitStep) -> CheckResult:
    """Record the start of a pursuit cycle, so that an interrupted cycle can be detected.

    Sub-goals that a crash interrupted are reviewed before they resume.
    """
    if goal_store.open_cycle(step.tx, step.goal.tenant_id, step.goal.id):
        sub_goals.append(step.tx, step.goal.tenant_id, step.goal.id, "cycle_began", {"plan_no": step.goal.plan_no})
    interrupted = step.list_interrupted()
    if interrupted:
        return AskQuestion(recovery.build_question(step.goal, interrupted), apply_resumption)
    return CLEAR


def apply_resumption(step: PursuitStep, result: FormResult[recovery.ResumptionForm]) -> None:
    recovery.apply_decisions(step.tx, step.goal, step.list_interrupted(), result)


def evaluate_by_metrics(step: PursuitStep) -> CheckResult:
    """Judge ended sub-goals by metrics before replanning, so that a bad outcome counts against the plan that produced it."""
    judgements = [
        (sub_goal, judgement) for sub_goal in step.list_unjudged() if (judgement := evaluation.evaluate_by_metric(sub_goal))
    ]
    for sub_goal, judgement in judgements:
        sub_goals.judge(step.tx, step.goal, sub_goal, *judgement)
    return None if judgements else CLEAR


def ensure_plan(step: PursuitStep) -> CheckResult:
    goal = step.goal
    if goal.plan_no == 0 and not goal.repository and (repository := step.runtime.roles.find(step.run.role).repository):
        goals.set_repository(step.tx, goal, step.run, repository)
        return None
    is_driven = step.runtime.models.drives_items("strong")
    if goal.plan_no == 0 and is_driven and (steps := planner.plan_by_rule(goal)):
        goals.apply_plan(step.tx, goal, steps, "")
        return None
    if is_driven and goal.plan_no and goal_store.list_ready_pursuits(step.tx, goal, "inline", 1):
        return CLEAR  # a small model first does the rest: what failed does not stop it
    if goal.plan_no == 0:
        return AskQuestion(planner.build_plan_question(goal, step.workforce, step.experience()), apply_plan)
    why = find_replan_reason(goal, step.known) if has_replan_reason(goal, goal_store.list_doubts(step.tx, goal)) else None
    if why is None:
        return CLEAR
    if is_driven and goal.plan_no == 1 and not goal.replan_why and planner.plan_by_rule(goal):
        ask_what_next(step)
        return None
    if goal.replan_count >= step.limits.replans:
        count = f"It was replanned {goal.replan_count} times, which is the limit."
        goals.escalate(step.tx, goal, "replans", f"{count} The last reason: {why[:REASON_LIMIT]}")
        return None
    question = planner.build_replan_question(goal, step.workforce, step.experience(), step.known, why)
    return AskQuestion(question, partial(apply_replan, why=why))


def ask_what_next(step: PursuitStep) -> None:
    """Pause a goal whose description was its plan: a small model makes no better one. If it is resumed, a new plan is made."""
    missed = [sub_goal for sub_goal in step.known if sub_goal.divergence not in (None, "none")]
    reasons = [f"#{sub_goal.id} {sub_goal.title}: {sub_goal.divergence_reason}" for sub_goal in missed]
    reason = "\n".join([f"{len(missed)} of {len(step.known)} sub-goals were not reached.", *reasons])[:REASON_LIMIT]
    goals.escalate(step.tx, goals.save_goal_and_emit(step.tx, step.goal._replace(replan_why=reason)), "escalation", reason)


def apply_plan(step: PursuitStep, result: FormResult[planner.PlanForm]) -> None:
    if result.form is None:
        handle_missing_plan(step, result)
        return
    goals.apply_plan(step.tx, step.goal, planner.to_planned_steps(result.form, step.known), "")


def handle_missing_plan(step: PursuitStep, result: FormResult[Any]) -> None:
    if result.failure:
        goals.pause_for_fault(step.tx, step.goal, step.job, f"No plan could be made: {result.failure}")
    else:
        goals.escalate(step.tx, step.goal, "escalation", f"No valid plan could be made: {result.complaint[:REASON_LIMIT]}")


def apply_replan(step: PursuitStep, result: FormResult[planner.ReplanForm], why: str) -> None:
    tx, goal, form = step.tx, step.goal, result.form
    if form is None:
        handle_missing_plan(step, result)
        return
    if form.give_up.strip():
        reason = form.give_up.strip()[:REASON_LIMIT]
        goals.mark_abandoned(tx, goal, reason)
        step.notify_operator("given_up", f"Goal #{goal.id} was given up: {goals.format_description(goal)} {reason}")
        return
    try:
        planner.check_plan(form, step.known, step.runtime.roles)  # sub-goals may have ended while the model was planning
    except Invalid:
        return  # the next step asks again
    steps = planner.to_planned_steps(form, step.known)
    if goals.is_unchanged(step.known, steps):
        goals.escalate(tx, goal, "escalation", f"A new plan was due ({why[:REASON_LIMIT]}), but it would change nothing.")
        return
    evaluate_by_metrics(step)
    goal = goals.save_goal_and_emit(tx, goal._replace(replan_count=goal.replan_count + 1))
    reason = f"{why} {form.reason}".strip()
    if form.new_goal.strip():
        goal = change_description(step, goal, form.new_goal.strip()[: goals.DESCRIPTION_LIMIT], reason)
    goal_store.end_cycle(tx, goal.tenant_id, goal.id, "completed")
    goal_store.open_cycle(tx, goal.tenant_id, goal.id)
    goals.apply_plan(tx, goal, steps, reason)


def change_description(step: PursuitStep, goal: Goal, description: str, reason: str) -> Goal:
    """Change the goal's description, and notify the operator of the reason."""
    renamed = goal._replace(description=description)
    cause = f"Goal #{goal.id} was replanned (attempt {goal.replan_count}): {to_one_line(reason)[:REASON_LIMIT]}"
    step.notify_operator(
        "replanned", f"{cause} The goal was {goals.format_description(goal)} It is now {goals.format_description(renamed)}"
    )
    return goals.save_goal_and_emit(step.tx, renamed)


def start_agents(step: PursuitStep) -> CheckResult:
    """Start ready sub-goals as sub-agents, by priority, up to the limit on concurrent ones."""
    room = step.runtime.limits.per_parent - len(step.list_running())
    ready = goal_store.list_ready_pursuits(step.tx, step.goal, "agent", room) if room > 0 and not step.is_out_of_budget else []
    if not ready:
        return CLEAR
    for sub_goal in ready:
        context = prompts.render_task_context(sub_goal, goal_store.list_dependencies(step.tx, sub_goal))
        assignment = Assignment(step.runtime.roles.find(sub_goal.role), prompts.render_task(sub_goal), context)
        child = start_sub_agent(step.tx, step.run, assignment, step.runtime.limits, sub_goal.id)
        sub_goals.start_sub_goal(step.tx, sub_goal, child)
    step.clear_failures()
    return None


def prove_outcomes(step: PursuitStep) -> CheckResult:
    """Judge the next ended sub-goal that has checks by these. No model is asked then."""
    sub_goal = next((sub_goal for sub_goal in step.list_unjudged() if sub_goal.checks), None)
    if sub_goal is None:
        return CLEAR
    outcome = json.loads(sub_goal.outcome or "{}")
    data = outcome.get("data")
    checks = decode_checks(sub_goal.checks)
    subject = CheckSubject("sub_goal", sub_goal.id, sub_goal.description, checks, outcome.get("summary") if data is None else data)
    return run_checks(step, subject, partial(apply_outcome_receipt, sub_goal_id=sub_goal.id))


def apply_outcome_receipt(step: PursuitStep, receipt: ReceiptDraft, sub_goal_id: int) -> None:
    sub_goal = step.find(sub_goal_id)
    if sub_goal.divergence is None and receipt.covers(decode_checks(sub_goal.checks)):
        goals.judge_sub_goal(step.tx, step.goal, sub_goal, receipt)


def run_checks(
    step: PursuitStep, subject: CheckSubject, apply: Callable[[PursuitStep, ReceiptDraft], None]
) -> RunGoalChecks | None:
    """Run checks that the goal's agent may run, in the sandbox. Otherwise an operator has to decide, because a goal has no one to
    approve them."""
    if step.run.replays and proofs.reaches_outside(subject.checks):
        reason = f"the checks of {subject.title[:200]!r}"
        goals.escalate(step.tx, step.goal, "escalation", proposals.STOP_MESSAGE.format(step.run.iterations, reason))
        return None
    if step.runtime.checks.needs_approval(subject.checks):
        goals.escalate(step.tx, step.goal, "escalation", f"The checks of {subject.title[:200]!r} need a sandbox. {NO_SANDBOX}")
        return None
    execution = load_context(step.tx, step.runtime, step.run).execution
    ruling = rule_on_checks(step.tx, step.runtime.checks, subject.checks, CheckCaller(execution, is_run=True))
    if ruling.decision != "allow":
        refusal = describe_refusal(ruling, subject.checks)
        goals.escalate(step.tx, step.goal, "escalation", f"The checks of {subject.title[:200]!r} did not run: {refusal}")
        return None
    return RunGoalChecks(subject, apply, step.is_last_attempt)


def evaluate_outcomes(step: PursuitStep) -> CheckResult:
    """Judge the next ended sub-goal with a model. Runs after new sub-agents have been started, so that they need not wait."""
    unjudged = step.list_unjudged()
    if not unjudged:
        return CLEAR
    sub_goal = unjudged[0]
    return AskQuestion(evaluation.build_outcome_question(step.goal, sub_goal), partial(apply_evaluation, sub_goal_id=sub_goal.id))


def apply_evaluation(step: PursuitStep, result: FormResult[evaluation.EvaluationForm], sub_goal_id: int) -> None:
    sub_goals.judge(step.tx, step.goal, step.find(sub_goal_id), *evaluation.to_evaluation(result))


def work_inline(step: PursuitStep) -> CheckResult:
    if step.run.sub_goal_id is not None:
        return WorkInline(step.run)
    ready = goal_store.list_ready_pursuits(step.tx, step.goal, "inline", 1) if not step.is_out_of_budget else []
    if not ready:
        return CLEAR
    sub_goal = ready[0]
    done = goal_store.list_last_completed(step.tx, step.goal, prompts.DONE_LIMIT)
    dependencies = goal_store.list_dependencies(step.tx, sub_goal)
    is_alone = step.runtime.models.drives_items("strong") and not dependencies and stands_alone(sub_goal.description)
    opening = prompts.build_task(sub_goal) if is_alone else prompts.build_work(step.goal, sub_goal, done, dependencies)
    run = goals.begin_inline(step.tx, step.run, sub_goal, transcript.encode(opening), step.runtime.limits.sub_agent_iterations)
    step.clear_failures()
    return WorkInline(run)  # all earlier checks are clear


def check_on_agents(step: PursuitStep) -> CheckResult:
    """Check in on the sub-agents that are due."""
    sub_goal = next(
        (
            sub_goal
            for sub_goal in step.list_running()
            if check_ins.compute_due_at(sub_goal, step.limits, step.tx.now) <= step.tx.now
        ),
        None,
    )
    if sub_goal is None:
        return CLEAR
    run = runs.get_run(step.tx, sub_goal.tenant_id, sub_goal.run_id or "")
    changes, why = check_ins.check_progress(step.tx, sub_goal, run, step.limits)
    if not why or step.is_out_of_budget:
        sub_goals.change_sub_goal(step.tx, sub_goal, **changes)
        return None
    if sub_goal.interventions >= check_ins.MAX_INTERVENTIONS:
        check_ins.intervene(step.tx, sub_goal, run, None, why)
        return None
    return AskQuestion(
        check_ins.build_question(step.goal, sub_goal, run, why), partial(apply_intervention, sub_goal_id=sub_goal.id, why=why)
    )


def apply_intervention(step: PursuitStep, result: FormResult[check_ins.InterventionForm], sub_goal_id: int, why: str) -> None:
    sub_goal = step.find(sub_goal_id)
    run = run_store.find_run(step.tx, sub_goal.tenant_id, sub_goal.run_id or "")
    if sub_goal.status == "in-progress" and run and not run.ended:  # otherwise it has ended in the meantime
        check_ins.intervene(step.tx, sub_goal, run, result, why)


def await_agents(step: PursuitStep) -> CheckResult:
    """Wait until a sub-agent ends, the next check-in is due, or the deadline passes."""
    times = [check_ins.compute_due_at(sub_goal, step.limits, step.tx.now) for sub_goal in step.list_running()]
    if not times:
        return CLEAR
    return Rest(min([*times, *([step.goal.deadline_at] if step.goal.deadline_at > step.tx.now else [])]))


def conclude(step: PursuitStep) -> CheckResult:
    """Conclude the goal after all sub-goals have ended."""
    tx, goal = step.tx, step.goal
    if step.is_out_of_budget and goal.pending:
        goals.resume_after_budget(tx, goal.tenant_id, goal.id)  # no sub-agent is left that would notice new budget
        return None
    if not goal.completed:
        goals.escalate(tx, goal, "escalation", "All sub-goals have ended, and none was completed.")
        return None
    if step.run.repository and step.commit_error is None:
        return CommitWork(step.run)
    if step.commit_error:
        goals.pause_for_fault(tx, goal, step.job, step.commit_error)
        return None
    if goal.checks:
        subject = CheckSubject("goal", goal.id, goal.description, decode_checks(goal.checks), build_summary(step.known))
        return run_checks(step, subject, apply_goal_receipt)
    if goal.success_criteria:
        return AskQuestion(evaluation.build_goal_question(goal, step.known), apply_verdict)
    goals.complete_goal(tx, goal, build_summary(step.known))
    return None


def apply_verdict(step: PursuitStep, result: FormResult[evaluation.VerdictForm]) -> None:
    missing = evaluation.describe_unmet(result)
    sub_goals.append(step.tx, step.goal.tenant_id, step.goal.id, "goal_evaluated", {"met": not missing, "reason": missing})
    if missing:
        goals.save_goal_and_emit(step.tx, step.goal._replace(replan_why=missing))
    else:
        goals.complete_goal(step.tx, step.goal, build_summary(step.known))


def apply_goal_receipt(step: PursuitStep, receipt: ReceiptDraft) -> None:
    if receipt.covers(decode_checks(step.goal.checks)):
        goal = goals.prove_goal(step.tx, step.goal, receipt)
        if receipt.ok:
            goals.complete_goal(step.tx, goal, build_summary(step.known))


def build_summary(known: list[SubGoal]) -> str:
    """Join the outcomes of the completed sub-goals on which no other depends."""
    dependency_ids = {dependency for sub_goal in known for dependency in sub_goal.depends_on}
    ends = [sub_goal for sub_goal in known if sub_goal.status == "completed" and sub_goal.id not in dependency_ids]
    return "\n\n".join(prompts.get_summary(end) for end in ends)[: sub_goals.SUMMARY_LIMIT]


CHECKS: Final[tuple[Callable[[PursuitStep], CheckResult], ...]] = (
    enforce_bounds,
    retry_question,
    ensure_cycle,
    evaluate_by_metrics,
    ensure_plan,
    start_agents,
    prove_outcomes,
    evaluate_outcomes,
    check_on_agents,
    work_inline,
    await_agents,
    conclude,
)
