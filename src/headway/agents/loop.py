"""The loop of a run: look at the last message of its transcript, do the one next thing.

Each step is one transaction. It writes down what came from outside, does all that needs nothing from outside, and ends where
the world is needed again: a model's answer, a tool's result. Nothing lives only in memory: kill the process between any two
statements, drive the same run again, and it goes on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from contextvars import Context, copy_context
from functools import partial
from math import inf
from typing import TypeVar

from pydantic_ai.messages import ModelRequest, ModelResponse

from headway.actions import jobs, runs, spending
from headway.agents import assessor, cut_off, effects, gates, prompts, transcript
from headway.agents.models import ModelFailed
from headway.agents.needs import (
    AskModel,
    Assess,
    CallTool,
    Done,
    Failure,
    Need,
    News,
    Said,
    Setback,
    Stop,
    Summarise,
    Summary,
    Verdict,
)
from headway.agents.step import Step, still_open
from headway.agents.toolbox import reach_out
from headway.agents.tracing import Note, ended_well, of_plan, of_run, of_tool, progress
from headway.agents.transcript import Entry, spoken, storable, user, window
from headway.agents.work import Means, Work, take_up
from headway.ledger.errors import CommitUncertain, SettingsError, StorageError
from headway.ledger.framing import unframed
from headway.ledger.run import Effect, Run
from headway.ledger.writ_parser import WritParser
from headway.storage import run_store
from headway.storage.spending_store import ModelCall
from headway.storage.transaction import Transaction

log = logging.getLogger("headway.loop")

T = TypeVar("T")
STORAGE_PATIENCE_S = 1.0
NOT_OURS = Stop("it has ended, or somebody else goes on with it")
REFUSALS_BORNE = 3  # by the database, before an agent stops rather than going on without a checkpoint
RESTART = {"text": "", "restart": True}  # what was whispered of the answer is withdrawn


async def drive(means: Means, run: Run, *, taken_over: bool = False, answers: float = inf) -> Stop:
    """Go on with a run until it ends, or has to stop here, or has had so many answers of its model."""
    work = await patiently(lambda: means.database.read(partial(take_up, means=means, run=run)))
    entries = await patiently(partial(journal, work))
    news: News = None
    if taken_over:
        means.stream(run, RESTART)  # whoever heard half an answer from another process will not hear the rest
    with of_run(means.tracer, run), ExitStack() as spans:
        note: Note | None = None
        while True:
            need, entries = await step(work, entries, news)
            if isinstance(need, Stop):
                means.nudge()  # whoever waited for it, or is to begin now
                return need
            if isinstance(need, AskModel):
                if not answers:
                    return Stop("answered")
                answers -= 1
                if need.planned:
                    note = note or spans.enter_context(of_plan(means.tracer, run))
                    note(progress(need.planned, need.left))
            news = await fetch(work, entries, need)


async def step(work: Work, entries: list[Entry], news: News) -> tuple[Need, list[Entry]]:
    """Take one step. A commit that failed is tried again; one that had happened after all shows in the journal. A database
    that refuses is asked again and then believed."""
    unpaid = news.call if isinstance(news, Said | Summary | Verdict) else None
    here = copy_context()  # what tools of the ledger do belongs to the span that is open here, on whatever thread they do it
    refusals = 0
    meant: list[Need] = []  # what the last attempt would have gone on with
    lost: Effect | None = None
    while True:
        try:
            attempt = partial(take_here, here=here, work=work, entries=entries, news=news, lost=lost, meant=meant)
            need, entries = await work.means.database.write(attempt)
            if need == NOT_OURS and unpaid:
                await pay_late(work, unpaid)
            return need, entries
        except StorageError as error:
            refusals += not error.may_pass
            if refusals >= REFUSALS_BORNE:
                raise
            if isinstance(error, CommitUncertain):
                unpaid = None  # perhaps it is paid for, with the step: nothing is paid for twice
                lost = next((need.effect for need in meant if isinstance(need, CallTool)), None)
            log.warning("run %s waits for the database: %s", work.run.id, error)
            await asyncio.sleep(STORAGE_PATIENCE_S)
        stored = await patiently(partial(journal, work))
        if len(stored) > len(entries):
            entries, news = stored, None


async def pay_late(work: Work, call: ModelCall) -> None:
    run, budget = work.run, work.means.limits.budget
    await work.means.database.write(lambda tx: spending.settle_late(tx, run.tenant_id, run.id, call, budget))


def take_here(
    tx: Transaction, here: Context, work: Work, entries: list[Entry], news: News, lost: Effect | None, meant: list[Need]
) -> tuple[Need, list[Entry]]:
    need, entries = here.run(take, tx, work, entries, news, lost)
    meant[:] = [need]
    return need, entries


def take(tx: Transaction, work: Work, entries: list[Entry], news: News, lost: Effect | None = None) -> tuple[Need, list[Entry]]:
    """The step itself: what it needs to go on, and the transcript as it left it. Only whoever holds the job may take it.
    Lost: a tool call that is perhaps stored as started, by a commit whose answer got lost, and that was certainly not made."""
    held = runs.lock(tx, work.run)
    if held is None or held.state != "running" or held.owner != work.means.owner:
        return NOT_OURS, entries
    found = run_store.to_move(tx, work.run.tenant_id, work.run.id)
    if found is None:
        return NOT_OURS, entries
    run, halted = found
    step = Step(tx, work, held, run, entries, lost)
    if step.over:
        return NOT_OURS, entries
    if not entries:
        step.append(user(unframed(run.task)))
    write_down(step, news)
    need: Need | None = Stop("halted") if halted else None
    while need is None:
        need = next_thing(step)
    need = step.settle(need)
    step.write()
    got_further = news is not None or len(step.entries) > len(entries) or step.run != run
    if got_further and not step.run.ended:  # a look at what is next is no change, and needs no commit
        run_store.save(tx, step.run._replace(updated_at=tx.now))
    return need, step.entries


def write_down(step: Step, news: News) -> None:
    if isinstance(news, Said | Summary | Verdict):
        step.held = jobs.progressed(step.tx, step.held)
    match news:
        case Said(response, call, stored):
            step.charge(call)
            step.run = step.run._replace(iterations=step.run.iterations + 1)
            step.append(response, stored)
            if response.tool_calls and response.finish_reason not in ("length", "content_filter", "error"):
                step.say(response.text or "")
        case Done():
            effects.take_result(step, news)
        case Summary(text, call):
            step.charge(call)
            step.say(spoken(step.entries[-1].message))  # what people have read of it stays with them
            step.withdraw_last()
            step.append(user(prompts.CUT_OFF + unframed(text)))
        case Verdict():
            step.charge(news.call)
            gates.follow(step, news)
        case Failure(message, code):
            step.fail(message, code)
        case Setback(message, retry_after_s):
            step.set_back(message, retry_after_s)


def next_thing(step: Step) -> Need | None:
    """Derived from the last message. Done here if it can be, and then there is another next thing."""
    if step.over or step.held.state != "running":
        return Stop("ended or delayed")
    entry = next(entry for entry in reversed(step.entries) if entry.sent)
    match entry.message:
        case ModelRequest():
            return before_asking(step)
        case ModelResponse() if cut_off.join_last(step):
            return None
        case ModelResponse(finish_reason="content_filter"):
            return step.end_filtered()
        case ModelResponse(finish_reason="error"):
            step.withdraw_last()  # whoever retries the turn asks again
            return step.fail("The model ended its answer with an error.", "model_error")
        case ModelResponse(finish_reason="length") as response:
            return cut_off.handle(step, response)
        case ModelResponse(tool_calls=[_, *_]) as response:
            return effects.call_tools(step, entry, response)
        case ModelResponse() as response:
            return gates.hear(step, entry, response.text or "")


def before_asking(step: Step) -> AskModel | Stop:
    plan = step.plan()
    left = still_open(plan)
    limit = step.limits.extended(step.run.limit, step.run.iterations, has_open=bool(left))
    if step.run.iterations >= limit:
        return step.give_up(prompts.out_of_steps(step.run.iterations), "incomplete" if left else "limit")
    step.run = step.run._replace(limit=limit)
    if step.run.hint:
        step.append(user(prompts.check_in(step.run.hint)))
        step.run = step.run._replace(hint="")
    return AskModel(prompts.context(step.run.task, plan, step.work.mode) if plan else None, len(plan), len(left))


async def fetch(work: Work, entries: list[Entry], need: Need) -> News:
    """What the next step needs, from outside; or what is in the way."""
    try:
        return await fetched(work, entries, need)
    except ModelFailed as error:
        return Setback(str(error), error.retry_after_s) if error.passes else Failure(str(error), error.code)
    except SettingsError as error:
        return Failure(str(error), error.code)


async def fetched(work: Work, entries: list[Entry], need: Need) -> News:
    match need:
        case AskModel(context=context):
            return await ask(work, entries, context)
        case CallTool(effect, tool, arguments):
            with of_tool(work.means.tracer, effect.tool, effect.call_id) as noted:
                execution = work.execution._replace(effect_key=effect.key(work.run.id))
                result = await reach_out(tool, arguments, execution)
                noted(ended_well(is_error=result.is_error))
            return Done(effect, result)
        case Summarise():
            return await assessor.summarise(work.means.models, need)
        case Assess():
            return await assessor.assess(work.means.models, need)
    return None


async def ask(work: Work, entries: list[Entry], context: str | None) -> Said:
    messages = window(work.before, entries) + ([user(context)] if context else [])
    voice = Voice(work, len(entries))
    reply = await work.means.models.ask(work.role.tier, messages, work.parameters, voice)
    voice.ended()
    return Said(reply.response, reply.call, transcript.encode(reply.response))


async def journal(work: Work) -> list[Entry]:
    return await work.means.database.read(lambda tx: transcript.load(tx, work.run))


async def patiently(read: Callable[[], Awaitable[T]]) -> T:
    """A database that is away for a while ends no run."""
    while True:
        try:
            return await read()
        except StorageError as error:
            if not error.may_pass:
                raise
            log.warning("a run waits for the database: %s", error)
            await asyncio.sleep(STORAGE_PATIENCE_S)


class Voice:
    """Passes on what a model says while it says it, without the writs. The words of one answer are numbered, so that who joins
    in the middle can tell which ones are new."""

    def __init__(self, work: Work, place: int) -> None:
        self.work = work
        self.place = place  # of the answer in the transcript
        self.parser = WritParser()
        self.spoken = 0

    def heard(self, text: str) -> None:
        self.tell(self.parser.feed(storable(text)).visible)

    def ended(self) -> None:
        self.tell(self.parser.finish().visible)

    def withdrawn(self) -> None:
        self.parser = WritParser()
        if self.spoken:
            self.spoken = 0
            self.work.means.stream(self.work.run, RESTART)

    def tell(self, text: str) -> None:
        if text:
            self.spoken += 1
            self.work.means.stream(self.work.run, {"text": text, "n": self.spoken, "step": self.place})
