"""One step of a pursuit, which is one transaction: the goal's state and the operations that all checks share."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from headway.actions.access import quotas, spending
from headway.actions.goals import goals
from headway.actions.runs import jobs, notices, runs
from headway.agents.checks.runner import CheckSubject
from headway.agents.instructions.prompts import POOL_EXHAUSTED, STORAGE_FULL
from headway.agents.loop.context import Runtime
from headway.agents.loop.step import BUDGET_CHECK_MS
from headway.agents.loop.structured import FormResult, Question
from headway.agents.models.client import ModelFailed
from headway.agents.transcripts.transcript import CHARACTERS_PER_TOKEN
from headway.autonomy.prompts import Workforce
from headway.ledger.check import ReceiptDraft
from headway.ledger.goal import Experience, Goal, SubGoal
from headway.ledger.job import NEVER, Job
from headway.ledger.limits import GoalLimits
from headway.ledger.run import Run
from headway.storage.stores import goals as goal_store
from headway.storage.stores import runs as run_store
from headway.storage.stores.spending import ModelCall
from headway.storage.transaction import Transaction

FORM_TOKENS = 2_500  # rough size of a form's instructions and schema


class AskQuestion(NamedTuple):
    """A question to a model, and the function that applies its answer."""

    question: Question[Any]
    apply_answer: Callable[["PursuitStep", FormResult[Any]], None]


class WorkInline(NamedTuple):
    """Let the main agent work on a sub-goal itself."""

    run: Run


class CommitWork(NamedTuple):
    """Commit the work in the goal's repository."""

    run: Run


class RunGoalChecks(NamedTuple):
    """Run the checks of a sub-goal or of the goal, and apply what they found."""

    subject: CheckSubject
    apply_receipt: Callable[["PursuitStep", ReceiptDraft], None]
    is_last_attempt: bool

    @property
    def opinions(self) -> int:
        """The number of requests to a model."""
        return sum(check["kind"] == "judge" for check in self.subject.checks)


class Rest(NamedTuple):
    """Wait until a point in time, or until another event wakes the goal."""

    until: int = NEVER


NextAction = AskQuestion | RunGoalChecks | WorkInline | CommitWork | None


class PursuitStep:
    def __init__(self, tx: Transaction, runtime: Runtime, limits: GoalLimits, job: Job, run: Run, goal: Goal) -> None:
        self.tx = tx
        self.runtime = runtime
        self.limits = limits
        self.job = job
        self.run = run
        self.goal = goal
        self.commit_error: str | None = None  # None until the work has been committed; then empty, or the error
        self.follow_up: AskQuestion | None = None  # the previous question, with the reason its answer was rejected

    def reload(self) -> None:
        """Reload the rows after a change."""
        tenant_id = self.goal.tenant_id
        self.goal = goals.get_goal(self.tx, tenant_id, self.goal.id)
        self.run = runs.get_run(self.tx, tenant_id, self.run.id)
        self.job = jobs.get_job(self.tx, tenant_id, self.run.id)
        vars(self).pop("known", None)
        vars(self).pop("at_hand", None)

    @cached_property
    def known(self) -> list[SubGoal]:
        """All sub-goals. Used only for planning and at the end, because no other read in a step grows with the size of the goal."""
        return goal_store.list_sub_goals(self.tx, self.goal.tenant_id, self.goal.id)

    @cached_property
    def at_hand(self) -> list[SubGoal]:
        """The sub-goals that are running or wait for evaluation."""
        return goal_store.list_active(self.tx, self.goal)

    @property
    def is_running(self) -> bool:
        """Whether this process still owns the job and the goal has not ended."""
        return self.job.state == "running" and not self.goal.ended

    @property
    def is_out_of_budget(self) -> bool:
        """Whether the goal is paused for budget. Work that costs nothing continues, and the goal resumes when there is budget."""
        return self.goal.status == "paused" and self.goal.pause_kind == "budget"

    def find(self, sub_goal_id: int) -> SubGoal:
        sub_goal = goal_store.find_sub_goal(self.tx, self.goal.tenant_id, sub_goal_id)
        assert sub_goal is not None, "sub-goals are never deleted"
        return sub_goal

    def list_running(self) -> list[SubGoal]:
        return [sub_goal for sub_goal in self.at_hand if sub_goal.status == "in-progress" and sub_goal.mode == "agent"]

    def list_interrupted(self) -> list[SubGoal]:
        """List the sub-goals that a crash interrupted and that have not been reviewed."""
        return [sub_goal for sub_goal in self.at_hand if sub_goal.interrupted]

    def experience(self) -> list[Experience]:
        return goal_store.list_experience(self.tx, self.goal.tenant_id)

    def list_unjudged(self) -> list[SubGoal]:
        return [sub_goal for sub_goal in self.at_hand if sub_goal.ended]

    def notify_operator(self, kind: str, text: str) -> None:
        notices.notify_about_goal(self.tx, self.goal, kind, text)

    # Budget and retries

    @property
    def is_last_attempt(self) -> bool:
        return self.job.attempts + 1 >= self.job.max_attempts

    def charge(self, call: ModelCall) -> None:
        self.keep(spending.settle_payment(self.tx, self.run, call, self.runtime.limits.budget))

    def release(self) -> None:
        self.keep(spending.release(self.tx, self.run))

    def keep(self, run: Run) -> None:
        if run != self.run:
            run_store.save_run(self.tx, run)
            self.run = run

    def clear_failures(self) -> None:
        self.job = jobs.clear_failures(self.tx, self.job)

    def handle_transient_failure(self, failure: Exception) -> None:
        self.release()
        retry_after_s = failure.retry_after_s if isinstance(failure, ModelFailed) else None
        self.job = jobs.retry_later(self.tx, self.job, str(failure), self.runtime.limits, retry_after_s)
        runs.emit_delay(self.tx, self.run, self.job, str(failure))

    def settle(self, request: AskQuestion | RunGoalChecks | WorkInline | CommitWork | Rest) -> NextAction:
        """Check that the action can be taken now. Reserves the cost of a model call; returns None if the goal has to wait."""
        if isinstance(request, Rest):
            deadline = self.goal.deadline_at if self.goal.status == "active" else 0
            self.rest(min(request.until, deadline or NEVER))
            return None
        if isinstance(request, AskQuestion) or (isinstance(request, RunGoalChecks) and request.opinions):
            if quotas.is_storage_full(self.tx, self.run.tenant_id):
                self.rest(self.tx.now + BUDGET_CHECK_MS)
                goals.pause_run(self.tx, self.run, STORAGE_FULL)
                return None
            cost = (
                self.estimate(request.question) if isinstance(request, AskQuestion) else self.estimate_opinion() * request.opinions
            )
            run = spending.reserve(self.tx, self.run, cost, self.runtime.limits.budget)
            if run is None:
                self.rest(self.tx.now + BUDGET_CHECK_MS)
                goals.pause_run(self.tx, self.run, POOL_EXHAUSTED)
                return None
            self.keep(run)
            if self.is_out_of_budget or self.run.status != "running":
                self.keep(goals.resume_run(self.tx, self.run))
        return request

    @property
    def workforce(self) -> Workforce:
        return Workforce(self.runtime.roles, self.runtime.toolbox, self.tx.now)

    def estimate(self, question: Question[Any]) -> int:
        times = 1 + len(question.exchange) // 2  # each retry sends the text again
        characters = len(question.text) * times + len(question.partial)
        return self.runtime.models.estimate(question.tier, lambda: characters // CHARACTERS_PER_TOKEN + FORM_TOKENS)

    def estimate_opinion(self) -> int:
        return self.runtime.models.estimate("cheap", lambda: FORM_TOKENS)

    def rest(self, until: int) -> None:
        jobs.delay(self.tx, self.job, until)
        if self.run.status != "waiting":
            self.release()  # for example, a reservation of a process that died
            self.keep(self.run._replace(status="waiting", updated_at=self.tx.now))
            runs.emit_run_changed(self.tx, self.run)
