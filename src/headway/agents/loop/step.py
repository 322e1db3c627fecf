"""One step of a run, in one transaction: what it reads and appends, and payments that arrive late."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai.messages import ModelMessage

from headway.actions.access import quotas, spending
from headway.actions.engine import run_ends
from headway.actions.goals import goals
from headway.actions.runs import jobs, notices, runs
from headway.actions.runs.runs import StepRows
from headway.actions.turns import steering, turns
from headway.agents.instructions import prompts
from headway.agents.loop.context import RunContext, Runtime
from headway.agents.loop.requests import AskModel, Assess, Compact, Deliver, Request, RunChecks, Sleep, Stop, Summarise
from headway.agents.models.text_calls import collect_broken_calls
from headway.agents.transcripts import transcript
from headway.agents.transcripts.history import Size, find_compactions, measure, select_window
from headway.agents.transcripts.transcript import TranscriptEntry, build_runtime_message
from headway.ledger.errors import StorageError
from headway.ledger.events import EventKind
from headway.ledger.inbox import PersonRequest
from headway.ledger.job import NEVER
from headway.ledger.parsing.writ_parser import ParsedText, parse
from headway.ledger.run import Effect, RunEnd, TurnOutcome
from headway.ledger.todo import Todo
from headway.storage.stores import runs as run_store
from headway.storage.stores import todos as todo_store
from headway.storage.stores.spending import ModelCall
from headway.storage.transaction import Transaction

BUDGET_CHECK_MS = 15_000  # how often a run that waits for budget checks again
HALT_STOP = Stop("halted")
PLAN_TABLES = ("todos", "todo_edges")


class Step:
    """One transaction of a run: the rows it has loaded, and everything that it may write before it commits."""

    def __init__(
        self, tx: Transaction, context: RunContext, rows: StepRows, entries: list[TranscriptEntry], lost: Effect | None
    ) -> None:
        self.tx = tx
        self.context = context
        self.job = rows.job
        self.run = rows.run
        self.known_plan = rows.plan  # as of the write count in known_changes; reread when that grows
        self.known_changes = tx.count_writes(*PLAN_TABLES)
        self.first_planned = len(rows.plan)  # items of the plan when this step began
        self.pool = rows.pool
        self.lost = lost  # the call that the previous attempt was about to make
        self.turn_id = context.scope.turn_id or ""  # the turn that owns the plan; empty for a sub-agent
        self.entries = list(entries)
        self.known_window: list[TranscriptEntry] | None = None  # until the entries change
        self.first_new = self.next_number
        self.unsaved: list[str] = []  # encoded messages that are appended but not yet written
        self.proposed: list[PersonRequest] = []  # calls that this step has proposed
        self.ending: RunEnd | None = None  # the end of a run whose work must be delivered first
        self.limits = context.runtime.limits

    @property
    def next_number(self) -> int:
        return self.entries[-1].n + 1 if self.entries else self.run.begins_at

    @property
    def over(self) -> bool:
        """Whether the run has nothing left to do. A goal's main agent then waits for its next sub-goal."""
        return self.run.ended or self.ending is not None or (self.run.is_main and self.run.sub_goal_id is None)

    @property
    def is_last_attempt(self) -> bool:
        return self.job.attempts + 1 >= self.job.max_attempts

    def append(self, message: ModelMessage, stored: str = "") -> None:
        self.unsaved.append(stored or transcript.encode(message))
        self.entries.append(TranscriptEntry.of(self.next_number, message))
        self.known_window = None

    def write(self, *, saves_run: bool = False) -> None:
        """Write the appended messages, before the step ends or an appended message is changed. At the step's end, save the run."""
        run, first = self.run._replace(updated_at=self.tx.now), self.next_number - len(self.unsaved)
        if self.unsaved and saves_run:
            run_store.append_and_save(self.tx, run, first, *self.unsaved)
        elif self.unsaved:
            run_store.append_messages(self.tx, run.tenant_id, run.id, first, *self.unsaved)
        elif saves_run:
            run_store.save_run(self.tx, run)
        self.unsaved.clear()

    def withdraw_last(self) -> None:
        self.withdraw(-1)

    def withdraw(self, index: int) -> None:
        """Keep a message in the journal but stop sending it to the model."""
        self.write()
        entry = self.entries[index]
        run_store.withdraw_message(self.tx, self.run.tenant_id, self.run.id, entry.n)
        self.entries[index] = entry._replace(sent=False)
        self.known_window = None

    def charge(self, call: ModelCall | None) -> None:
        if call:
            self.run = spending.settle_payment(self.tx, self.run, call, self.limits.budget, self.pool)

    def plan(self) -> list[Todo]:
        """Return the plan of the turn, read again only if this step has changed a todo."""
        changes = self.tx.count_writes(*PLAN_TABLES)
        if self.turn_id and changes != self.known_changes:
            self.known_plan = todo_store.list_by_turn(self.tx, self.run.tenant_id, self.turn_id)
            self.known_changes = changes
        return self.known_plan

    def count_added_items(self) -> int:
        """Count the items that the agent added to its plan after the step in which the plan was made.

        Only an agent's own steps add items in the transaction of a step, so people's items are not counted.
        """
        new = len(self.plan()) - self.first_planned if self.first_planned else 0
        return self.run.added_items + max(0, new)

    def parse(self, text: str) -> ParsedText:
        """Parse the model's text. A writ that it quotes from what the run has read is visible and does not run."""
        return parse(text, self.context.quotations.judge(self.entries))

    def say(self, text: str) -> None:
        """Show the user the visible part of the model's text, without writs."""
        turns.append_message(self.tx, self.run, "assistant", self.parse(text).visible)

    def emit(self, kind: EventKind, data: dict[str, Any], **encoded: str) -> None:
        turns.emit_event(self.tx, self.run, kind, data, **encoded)

    def emit_after_list(self, kind: EventKind, data: dict[str, Any]) -> None:
        turns.emit_after_list(self.tx, self.run, kind, data)

    def end(self, end: RunEnd) -> Stop:
        """End the run. Work in a repository is delivered first, unless the run broke."""
        if self.run.repository and not end.code:
            self.ending = end
        else:
            self.close(end)
        return Stop("ended")

    def close(self, end: RunEnd) -> None:
        self.run = run_ends.end_run(self.tx, self.run, end)

    def finish(self, outcome: TurnOutcome, answer: str) -> Stop | None:
        if self.run.unread:
            self.read_on(answer)
            return None
        return self.end(RunEnd.finish(outcome, answer))

    def give_up(self, reason: str, outcome: TurnOutcome, answer: str = "") -> Stop | None:
        """End the turn with the runtime's own words: the reason, and the unfinished items, which stay open in the ledger. An answer
        that was accepted comes before them."""
        if self.run.unread:
            self.read_on(answer)
            return None
        return self.end(RunEnd.finish(outcome, answer, prompts.render_closing(reason, list_open_items(self.plan()))))

    def read_on(self, answer: str) -> None:
        """Continue with unread messages instead of ending with an answer. A turn shows the answer; other runs have to repeat it."""
        self.say(answer)
        if not self.run.answers_turn and answer:
            self.append(build_runtime_message(prompts.UNDELIVERED_ANSWER))
        self.read_messages()

    def read_messages(self) -> None:
        """Append the unread messages of people. The limits on steps, refusals and resubmissions then count from here."""
        for message in steering.read(self.tx, self.run):
            self.append(prompts.build_steering_message(message.content))
        limit = max(self.run.limit, self.run.iterations + self.limits.iterations)
        self.run = self.run._replace(unread=0, limit=limit, refusals=0, resubmissions=0)

    def list_messages(self) -> list[str]:
        """List the messages that the run has read."""
        return [entry.facts["steering"] for entry in self.entries if "steering" in entry.facts]

    def handle_transient_failure(self, message: str, retry_after_s: float | None, code: str) -> None:
        """Retry later without holding a slot, even if this process dies. After the last attempt the run fails."""
        self.release()
        if self.run.is_main and self.is_last_attempt:  # the sub-goal failed, but the goal's job continues
            self.job = jobs.clear_failures(self.tx, self.job)
            self.end(RunEnd.fail(message, code))
            return
        self.retry_later(message, retry_after_s)
        if self.job.state == "dead":
            self.end(RunEnd.fail(message, code))

    def release(self) -> None:
        """Release the cost reserved for a call that gave no answer."""
        self.run = spending.release(self.tx, self.run)

    def retry_later(self, error: str, retry_after_s: float | None = None) -> None:
        """Delay the run's job with exponential backoff. If no attempts are left, the job is dead."""
        self.job = jobs.retry_later(self.tx, self.job, error, self.limits, retry_after_s)
        if self.job.state == "delayed":
            runs.emit_delay(self.tx, self.run, self.job, error)

    def notify(self, kind: str, text: str) -> None:
        notices.notify_once(self.tx, self.run, kind, text)

    def settle(self, request: Request) -> Request:
        """Check that the request can be made now. A model call needs budget, and a run that waits for another gives up its slot."""
        if self.ending is not None and request != HALT_STOP:
            request = Deliver(self.ending)
        if isinstance(request, Sleep):
            self.job = jobs.delay(self.tx, self.job, min(request.until, self.find_deadline()))
            self.rest()
            return Stop("waiting")
        if isinstance(request, AskModel | Summarise | Compact | Assess | RunChecks) and not self.ensure_funded(request):
            self.job = jobs.delay(self.tx, self.job, self.tx.now + BUDGET_CHECK_MS)
            self.rest()
            return Stop("paused")
        if not isinstance(request, Stop) and self.run.status != "running":
            self.run = goals.resume_run(self.tx, self.run)
        return request

    def find_deadline(self) -> int:
        """Return when the goal's deadline passes. Its main agent's job also enforces the deadline, even while it waits."""
        goal = goals.get_goal(self.tx, self.run.tenant_id, self.run.goal_id) if self.run.is_main and self.run.goal_id else None
        return goal.deadline_at if goal and goal.deadline_at > self.tx.now else NEVER

    def rest(self) -> None:
        should_emit = self.run.status != "waiting" and self.run.parent_run_id is not None
        self.run = self.run._replace(status="waiting")
        if should_emit:
            runs.emit_run_changed(self.tx, self.run)

    def ensure_funded(self, request: AskModel | Summarise | Compact | Assess | RunChecks) -> bool:
        """Check the tenant's storage, then the goal's budget for a sub-agent (the main agent's was checked already), then the
        shared pool."""
        if quotas.is_storage_full(self.tx, self.run.tenant_id):
            goals.pause_run(self.tx, self.run, prompts.STORAGE_FULL)
            return False
        if isinstance(request, RunChecks) and not request.opinions:
            return True
        if self.run.goal_id is not None and self.run.parent_run_id is not None:
            goal = goals.get_goal(self.tx, self.run.tenant_id, self.run.goal_id)
            if not goals.can_spend(self.tx, goal):
                return False
        if not self.reserve_cost(request):
            goals.pause_run(self.tx, self.run, prompts.POOL_EXHAUSTED)
            return False
        return True

    def reserve_cost(self, request: AskModel | Summarise | Compact | Assess | RunChecks) -> bool:
        """Reserve the call's estimated cost, if the pool can cover it."""
        is_own = isinstance(request, AskModel)
        tier, models = (self.context.role.tier, self.context.models) if is_own else ("cheap", self.context.runtime.models)
        cost = models.estimate(tier, lambda: self.size.tokens) * (request.opinions if isinstance(request, RunChecks) else 1)
        funded = spending.reserve(self.tx, self.run, cost, self.limits.budget, self.pool)
        self.run = funded or self.run
        return funded is not None

    @property
    def window(self) -> list[TranscriptEntry]:
        """The messages that the next request contains."""
        if self.known_window is None:
            self.known_window = select_window(self.context.history, self.entries)
        return self.known_window

    @property
    def size(self) -> Size:
        """The estimated size of the next request."""
        return measure(self.window, self.context.offer.tokens, next(find_compactions(self.entries), None))


def list_open_items(plan: list[Todo]) -> list[Todo]:
    return [todo for todo in plan if not todo.ended]


# Pays for model calls outside of a run's steps: calls that broke off, and calls whose answer no step can use.


log = logging.getLogger("headway.spending")


async def pay_late(runtime: Runtime, tenant_id: int, run_id: str, calls: Sequence[ModelCall]) -> None:
    def pay(tx: Transaction) -> None:
        for call in calls:
            spending.settle_late(tx, tenant_id, run_id, call, runtime.limits.budget)

    if calls:
        await runtime.database.write(pay)


@asynccontextmanager
async def paying_for_broken_calls(runtime: Runtime, tenant_id: int, run_id: str) -> AsyncIterator[None]:
    """Charge the run for calls that break off in the context, also if the work is canceled."""
    with collect_broken_calls() as calls:
        try:
            yield
        finally:
            try:
                await pay_late(runtime, tenant_id, run_id, calls)
            except StorageError as error:
                log.warning("run %s did not pay for %d calls that broke off: %s", run_id, len(calls), error)
