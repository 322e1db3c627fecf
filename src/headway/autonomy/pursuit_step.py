"""One step of a pursuit, which is one transaction: the goal's state and the operations that all checks share."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from headway.actions import goals, jobs, notices, runs, spending
from headway.actions.notices import NoticeSubject
from headway.agents.loop.context import Runtime
from headway.agents.loop.step import BUDGET_CHECK_MS, OVERHEAD_CHARACTERS
from headway.agents.loop.structured import FormResult, Question
from headway.agents.models.client import ModelFailed
from headway.agents.prompts import POOL_EXHAUSTED
from headway.ledger.goal import Experience, Goal, GoalLimits, SubGoal
from headway.ledger.job import NEVER, Job
from headway.ledger.run import Run
from headway.storage.stores import goals as goal_store
from headway.storage.stores import pursuits as pursuit_store
from headway.storage.stores import runs as run_store
from headway.storage.stores.spending import ModelCall
from headway.storage.transaction import Transaction


class AskQuestion(NamedTuple):
    """A question to a model, and the function that applies its answer."""

    question: Question[Any]
    answered: Callable[["PursuitStep", FormResult[Any]], None]


class WorkInline(NamedTuple):
    """Let the main agent work on a sub-goal itself."""

    run: Run


class Rest(NamedTuple):
    """Wait until a point in time, or until another event wakes the goal."""

    until: int = NEVER


NextAction = AskQuestion | WorkInline | None


class PursuitStep:
    def __init__(self, tx: Transaction, means: Runtime, limits: GoalLimits, held: Job, run: Run, goal: Goal) -> None:
        self.tx = tx
        self.means = means
        self.limits = limits
        self.held = held
        self.run = run
        self.goal = goal
        self.again: AskQuestion | None = None  # the previous question, with the reason its answer was rejected

    def reload(self) -> None:
        """Reload the rows after a change."""
        tenant_id = self.goal.tenant_id
        self.goal = goals.get(self.tx, tenant_id, self.goal.id)
        self.run = runs.get(self.tx, tenant_id, self.run.id)
        self.held = jobs.get(self.tx, tenant_id, self.run.id)
        vars(self).pop("known", None)
        vars(self).pop("at_hand", None)

    @cached_property
    def known(self) -> list[SubGoal]:
        """All sub-goals. Used only for planning and at the end, because no other read in a step grows with the size of the goal."""
        return goal_store.list_sub_goals(self.tx, self.goal.tenant_id, self.goal.id)

    @cached_property
    def at_hand(self) -> list[SubGoal]:
        """The sub-goals that are running or wait for evaluation."""
        return pursuit_store.list_active(self.tx, self.goal)

    @property
    def is_running(self) -> bool:
        """Whether this process still owns the job and the goal has not ended."""
        return self.held.state == "running" and not self.goal.ended

    @property
    def is_out_of_budget(self) -> bool:
        """Whether the goal is paused for budget. Work that costs nothing continues, and the goal resumes when there is budget."""
        return self.goal.status == "paused" and self.goal.pause_kind == "budget"

    def find(self, sub_goal_id: int) -> SubGoal:
        found = goal_store.find_sub_goal(self.tx, self.goal.tenant_id, sub_goal_id)
        assert found is not None, "sub-goals are never deleted"
        return found

    def list_running(self) -> list[SubGoal]:
        return [one for one in self.at_hand if one.status == "in-progress" and one.mode == "agent"]

    def list_interrupted(self) -> list[SubGoal]:
        """List the sub-goals that a crash interrupted and that have not been reviewed."""
        return [one for one in self.at_hand if one.interrupted]

    def experience(self) -> list[Experience]:
        return goal_store.list_experience(self.tx, self.goal.tenant_id)

    def list_unjudged(self) -> list[SubGoal]:
        return [one for one in self.at_hand if one.ended]

    def notify_operator(self, kind: str, text: str) -> None:
        notices.notify(self.tx, self.goal.tenant_id, kind, text, NoticeSubject(goal_id=self.goal.id))

    # Budget and retries

    @property
    def is_last_attempt(self) -> bool:
        return self.held.attempts + 1 >= self.held.max_attempts

    def charge(self, call: ModelCall) -> None:
        self.keep(spending.settle(self.tx, self.run, call, self.means.limits.budget))

    def release(self) -> None:
        self.keep(spending.release(self.tx, self.run))

    def keep(self, run: Run) -> None:
        if run != self.run:
            run_store.save(self.tx, run)
            self.run = run

    def clear_failures(self) -> None:
        self.held = jobs.clear_failures(self.tx, self.held)

    def handle_transient_failure(self, failure: Exception) -> None:
        self.release()
        asked = failure.retry_after_s if isinstance(failure, ModelFailed) else None
        self.held = jobs.retry_later(self.tx, self.held, str(failure), self.means.limits, asked)
        runs.tell_delay(self.tx, self.run, self.held, str(failure))

    def settle(self, need: AskQuestion | WorkInline | Rest) -> NextAction:
        """Check that the action can be taken now. Reserves the cost of a question; returns None if the goal has to wait."""
        if isinstance(need, Rest):
            bound = self.goal.deadline_at if self.goal.status == "active" else 0
            self.rest(min(need.until, bound or NEVER))
            return None
        if isinstance(need, AskQuestion):
            funded = spending.reserve(self.tx, self.run, self.estimate(need.question), self.means.limits.budget)
            if funded is None:
                self.rest(self.tx.now + BUDGET_CHECK_MS)
                goals.pause_run(self.tx, self.run, POOL_EXHAUSTED)
                return None
            self.keep(funded)
            if self.is_out_of_budget or self.run.status != "running":
                self.keep(goals.resume_run(self.tx, self.run))
        return need

    def estimate(self, question: Question[Any]) -> int:
        times = 1 + len(question.exchange) // 2  # each retry sends the text again
        sent = len(question.text) * times + len(question.partial)
        return self.means.models.estimate(question.tier, lambda: sent + OVERHEAD_CHARACTERS)

    def rest(self, until: int) -> None:
        jobs.delay(self.tx, self.held, until)
        if self.run.status != "waiting":
            self.release()  # for example, a reservation of a process that died
            self.keep(self.run._replace(status="waiting", updated_at=self.tx.now))
            runs.emit_changed(self.tx, self.run)
