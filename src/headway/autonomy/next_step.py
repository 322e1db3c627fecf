"""What comes next for a goal, derived from its rows. Whatever can be done here is done, and then there is another next thing."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from headway.actions import goals, journal, plans, runs, sub_goals
from headway.agents import transcript
from headway.agents.delegation import Assignment, assign
from headway.agents.structured import Filled
from headway.autonomy import check_ins, evaluator, planner, resumption
from headway.autonomy import goal_prompts as prompts
from headway.autonomy.stage import Ask, Rest, Stage, WorkInline
from headway.ledger.errors import Invalid
from headway.ledger.goal import Goal, SubGoal, in_doubt, replan_reason
from headway.ledger.text import one_line
from headway.storage import goal_store, pursuit_store, run_store

REASON_SHOWN: Final = 1_000


def next_thing(stage: Stage) -> Ask | WorkInline | Rest | None:
    if stage.goal.status == "paused" and not stage.poor:
        return Rest()
    for look in LOOKS:
        found = look(stage)
        if found is not CLEAR:
            return found  # type: ignore[return-value]
    return Rest()


class Clear(NamedTuple):
    """Nothing to do in this respect."""


CLEAR: Final = Clear()
Look = Ask | WorkInline | Rest | Clear | None


def within_bounds(stage: Stage) -> Look:
    """Its deadline, and a budget of its own."""
    goal, tx = stage.goal, stage.tx
    if goal.status != "active":
        return CLEAR
    if goal.deadline_at and tx.now >= goal.deadline_at:
        goals.escalate(tx, goal, "escalation", "Its deadline has passed.")
        return None
    return CLEAR if goals.can_spend(tx, goal) else None


def sent_back(stage: Stage) -> Look:
    return stage.again or CLEAR


def in_a_cycle(stage: Stage) -> Look:
    """A stretch of pursuit is written down as it begins, so that one that breaks off is found. What a crash left half done is
    looked at before it goes on."""
    if goal_store.open_cycle(stage.tx, stage.goal.tenant_id, stage.goal.id):
        journal.append(stage.tx, stage.goal.tenant_id, stage.goal.id, "cycle_began", {"plan_no": stage.goal.plan_no})
    half_done = stage.half_done()
    if half_done:
        return Ask(resumption.about(stage.goal, half_done), take_resumption)
    return CLEAR


def take_resumption(stage: Stage, filled: Filled[resumption.ResumptionForm]) -> None:
    resumption.apply(stage.tx, stage.goal, stage.half_done(), filled)


def measured(stage: Stage) -> Look:
    """What needs no model to be judged is judged before a plan is made: the plan that it spoils is the one it came from."""
    seen = [(one, found) for one in stage.unjudged() if (found := evaluator.by_metric(one))]
    for one, found in seen:
        sub_goals.judge(stage.tx, stage.goal, one, *found)
    return None if seen else CLEAR


def planned(stage: Stage) -> Look:
    goal = stage.goal
    if goal.plan_no == 0:
        return Ask(planner.first_plan(goal, stage.means.roles, stage.experience()), take_plan)
    why = replan_reason(goal, stage.known) if in_doubt(goal, pursuit_store.doubts(stage.tx, goal)) else None
    if why is None:
        return CLEAR
    if goal.replan_count >= stage.limits.replans:
        count = f"It was planned anew {goal.replan_count} times, which is the limit."
        goals.escalate(stage.tx, goal, "replans", f"{count} The last reason: {why[:REASON_SHOWN]}")
        return None
    question = planner.next_plan(goal, stage.means.roles, stage.experience(), stage.known, why)
    return Ask(question, partial(take_replan, why=why))


def take_plan(stage: Stage, filled: Filled[planner.PlanForm]) -> None:
    if filled.form is None:
        no_plan(stage, filled)
        return
    plans.lay_out(stage.tx, stage.goal, planner.steps_of(filled.form, stage.known), "")


def no_plan(stage: Stage, filled: Filled[Any]) -> None:
    if filled.failure:
        goals.fault(stage.tx, stage.goal, stage.held, f"No plan could be made: {filled.failure}")
    else:
        goals.escalate(stage.tx, stage.goal, "escalation", f"No plan could be made that works: {filled.complaint[:REASON_SHOWN]}")


def take_replan(stage: Stage, filled: Filled[planner.ReplanForm], why: str) -> None:
    tx, goal, form = stage.tx, stage.goal, filled.form
    if form is None:
        no_plan(stage, filled)
        return
    if form.give_up.strip():
        reason = form.give_up.strip()[:REASON_SHOWN]
        goals.give_up(tx, goal, reason)
        stage.tell_operator("given_up", f"Goal #{goal.id} is given up: {goals.shown(goal)} {reason}")
        return
    try:
        planner.check(form, stage.known, stage.means.roles)  # while it was being made, something may have ended
    except Invalid:
        return  # the next step asks anew
    steps = planner.steps_of(form, stage.known)
    if plans.changes_nothing(stage.known, steps):
        goals.escalate(tx, goal, "escalation", f"A new plan was due ({why[:REASON_SHOWN]}), and it would change nothing.")
        return
    measured(stage)
    goal = goals.save(tx, goal._replace(replan_count=goal.replan_count + 1))
    reason = f"{why} {form.reason}".strip()
    if form.new_goal.strip():
        goal = reword(stage, goal, form.new_goal.strip()[: goals.DESCRIPTION_LIMIT], reason)
    goal_store.end_cycle(tx, goal.tenant_id, goal.id, "completed")
    goal_store.open_cycle(tx, goal.tenant_id, goal.id)
    plans.lay_out(tx, goal, steps, reason)


def reword(stage: Stage, goal: Goal, description: str, reason: str) -> Goal:
    """Change the goal itself, and tell the operator why."""
    renamed = goal._replace(description=description)
    cause = f"Goal #{goal.id} was replanned (attempt {goal.replan_count}): {one_line(reason)[:REASON_SHOWN]}"
    stage.tell_operator("replanned", f"{cause} The goal was {goals.shown(goal)} It is now {goals.shown(renamed)}")
    return goals.save(stage.tx, renamed)


def begin_agents(stage: Stage) -> Look:
    """Those that are ready, as many as there may be at once, the worthiest first."""
    room = stage.means.limits.per_parent - len(stage.at_work())
    waiting = pursuit_store.ready(stage.tx, stage.goal, "agent", room) if room > 0 and not stage.poor else []
    if not waiting:
        return CLEAR
    for one in waiting:
        given = prompts.context_of(one, pursuit_store.below(stage.tx, one))
        assignment = Assignment(stage.means.roles.find(one.role), prompts.task_of(one), given)
        child = assign(stage.tx, stage.run, assignment, stage.means.limits, one.id)
        sub_goals.start(stage.tx, one, child)
    stage.progressed()
    return None


def evaluated(stage: Stage) -> Look:
    """Behind what can begin without it."""
    waiting = stage.unjudged()
    if not waiting:
        return CLEAR
    one = waiting[0]
    return Ask(evaluator.about_outcome(stage.goal, one), partial(take_evaluation, sub_goal_id=one.id))


def take_evaluation(stage: Stage, filled: Filled[evaluator.EvaluationForm], sub_goal_id: int) -> None:
    sub_goals.judge(stage.tx, stage.goal, stage.find(sub_goal_id), *evaluator.judged(filled))


def work_inline(stage: Stage) -> Look:
    if stage.run.sub_goal_id is not None:
        return WorkInline(stage.run)
    waiting = pursuit_store.ready(stage.tx, stage.goal, "inline", 1) if not stage.poor else []
    if not waiting:
        return CLEAR
    one = waiting[0]
    done = pursuit_store.last_done(stage.tx, stage.goal, prompts.DONE_SHOWN)
    said = transcript.encode(transcript.user(prompts.working(stage.goal, one, done, pursuit_store.below(stage.tx, one))))
    run = goals.begin_inline(stage.tx, stage.run, one, said, stage.means.limits.sub_agent_iterations)
    stage.progressed()
    return WorkInline(run)  # all that comes before it is clear


def look_after_agents(stage: Stage) -> Look:
    """Check in on sub-agents whose time has come."""
    one = next((one for one in stage.at_work() if check_ins.due_at(one, stage.limits) <= stage.tx.now), None)
    if one is None:
        return CLEAR
    run = runs.get(stage.tx, one.tenant_id, one.run_id or "")
    looked, why = check_ins.look_after(stage.tx, one, run, stage.limits)
    if not why or stage.poor:
        sub_goals.change(stage.tx, one, **looked)
        return None
    if one.interventions >= check_ins.MOST_INTERVENTIONS:
        check_ins.intervene(stage.tx, one, run, None, why)
        return None
    return Ask(check_ins.about_stuck(stage.goal, one, run, why), partial(take_intervention, sub_goal_id=one.id, why=why))


def take_intervention(stage: Stage, filled: Filled[check_ins.InterventionForm], sub_goal_id: int, why: str) -> None:
    one = stage.find(sub_goal_id)
    run = run_store.get(stage.tx, one.tenant_id, one.run_id or "")
    if one.status == "in-progress" and run and not run.ended:  # else it came to an end after all
        check_ins.intervene(stage.tx, one, run, filled, why)


def await_agents(stage: Stage) -> Look:
    """Until one of them ends, or it is time for the next check-in, or the deadline has come."""
    times = [check_ins.due_at(one, stage.limits) for one in stage.at_work()]
    if not times:
        return CLEAR
    return Rest(min([*times, *([stage.goal.deadline_at] if stage.goal.deadline_at > stage.tx.now else [])]))


def conclude(stage: Stage) -> Look:
    """Everything has ended."""
    tx, goal = stage.tx, stage.goal
    if stage.poor and goal.pending:
        goals.paid_again(tx, goal.tenant_id, goal.id)  # nobody else is left who would find out whether there is money
        return None
    if not goal.completed:
        goals.escalate(tx, goal, "escalation", "Nothing is left to do, and nothing was achieved.")
        return None
    if goal.success_criteria:
        return Ask(evaluator.about_goal(goal, stage.known), take_verdict)
    goals.complete(tx, goal, summary(stage.known))
    return None


def take_verdict(stage: Stage, filled: Filled[evaluator.VerdictForm]) -> None:
    missing = evaluator.unmet(filled)
    journal.append(stage.tx, stage.goal.tenant_id, stage.goal.id, "goal_evaluated", {"met": not missing, "reason": missing})
    if missing:
        goals.save(stage.tx, stage.goal._replace(replan_why=missing))
    else:
        goals.complete(stage.tx, stage.goal, summary(stage.known))


def summary(known: list[SubGoal]) -> str:
    """What came of those that nothing else builds on."""
    needed = {below for one in known for below in one.depends_on}
    ends = [one for one in known if one.status == "completed" and one.id not in needed]
    return "\n\n".join(prompts.summary_of(one) for one in ends)[: sub_goals.SUMMARY_KEPT]


LOOKS: Final[tuple[Callable[[Stage], Look], ...]] = (
    within_bounds,
    sent_back,
    in_a_cycle,
    measured,
    planned,
    begin_agents,
    evaluated,
    look_after_agents,
    work_inline,
    await_agents,
    conclude,
)
