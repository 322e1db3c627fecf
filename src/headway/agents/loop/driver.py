"""The agent loop: look at the last message of a run's transcript and do the one next thing.

Each step is one transaction. It stores the reply to the previous request, does everything that needs no I/O, and ends where the run
needs a model's answer or a tool's result. No state lives only in memory: if the process is killed between any two statements,
driving the same run again resumes it.
"""

from contextlib import ExitStack
from contextvars import Context, copy_context
from functools import partial
from math import inf

from pydantic_ai.messages import ModelRequest, ModelResponse

from headway.actions import jobs, runs, spending
from headway.agents import prompts, transcript
from headway.agents.facts import build_runtime_message
from headway.agents.loop import assessor, cut_off, gates, tool_calls
from headway.agents.loop.context import RunContext, Runtime, load_context
from headway.agents.loop.requests import (
    AskModel,
    Assess,
    CallTool,
    ModelAnswered,
    PermanentFailure,
    Reply,
    Request,
    RetryableFailure,
    Stop,
    Summarise,
    Summary,
    ToolReturned,
    Verdict,
)
from headway.agents.loop.step import Step, list_open_items
from headway.agents.models.client import ModelFailed
from headway.agents.tools.toolbox import call_external
from headway.agents.tracing import SetAttributes, to_plan_attributes, to_result_attributes, trace_plan, trace_run, trace_tool_call
from headway.agents.transcript import TranscriptEntry, build_user_message, get_text, select_window, to_storable
from headway.ledger.errors import CommitUncertain, SettingsError, StorageError
from headway.ledger.framing import escape_frames
from headway.ledger.run import Effect, Run, RunEnd
from headway.ledger.writ_parser import WritParser
from headway.storage.retry import MAX_REFUSALS, StorageRetry, retry_storage
from headway.storage.stores import runs as run_store
from headway.storage.stores.spending import ModelCall
from headway.storage.transaction import Transaction

NOT_OWNER = Stop("it has ended, or another process continues it")
RESTART_DELTA = {"text": "", "restart": True}  # withdraws the streamed part of an answer


async def drive(means: Runtime, run: Run, *, taken_over: bool = False, answers: float = inf) -> Stop:
    """Drive a run until it ends, must stop here, or has received `answers` model answers."""
    work = await retry_storage(
        lambda: means.database.read(partial(load_context, means=means, run=run)), f"run {run.id}", max_refusals=1
    )
    entries = await load_journal(work)
    news: Reply = None
    if taken_over:
        means.stream(run, RESTART_DELTA)  # subscribers that saw half an answer from another process will not get the rest
    with trace_run(means.tracer, run), ExitStack() as spans:
        note: SetAttributes | None = None
        while True:
            need, entries = await commit_step(work, entries, news)
            if isinstance(need, Stop):
                means.nudge()  # wake waiting parents and newly queued jobs
                return need
            if isinstance(need, AskModel):
                if not answers:
                    return Stop("answered")
                answers -= 1
                if need.planned:
                    note = note or spans.enter_context(trace_plan(means.tracer, run))
                    note(to_plan_attributes(need.planned, need.left))
            news = await fulfil_request(work, entries, need)


async def commit_step(work: RunContext, entries: list[TranscriptEntry], news: Reply) -> tuple[Request, list[TranscriptEntry]]:
    """Commit one step. A failed commit is retried; if it had succeeded after all, the journal shows it.

    After MAX_REFUSALS refused writes the error is raised.
    """
    unpaid = news.call if isinstance(news, ModelAnswered | Summary | Verdict) else None
    here = copy_context()  # ledger tools run on another thread but belong to the current trace span
    retry = StorageRetry(f"run {work.run.id}", MAX_REFUSALS)
    meant: list[Request] = []  # the request that the last attempt would have returned
    lost: Effect | None = None
    while True:
        try:
            attempt = partial(apply_in_context, here=here, work=work, entries=entries, news=news, lost=lost, meant=meant)
            need, entries = await work.means.database.write(attempt)
            if need == NOT_OWNER and unpaid:
                await charge_late(work, unpaid)
            return need, entries
        except StorageError as error:
            if isinstance(error, CommitUncertain):
                unpaid = None  # the step may have charged it already; never charge twice
                lost = next((need.effect for need in meant if isinstance(need, CallTool)), None)
            await retry.wait(error)
        stored = await load_journal(work)
        if len(stored) > len(entries):
            entries, news = stored, None


async def charge_late(work: RunContext, call: ModelCall) -> None:
    run, budget = work.run, work.means.limits.budget
    await work.means.database.write(lambda tx: spending.settle_late(tx, run.tenant_id, run.id, call, budget))


def apply_in_context(
    tx: Transaction,
    here: Context,
    work: RunContext,
    entries: list[TranscriptEntry],
    news: Reply,
    lost: Effect | None,
    meant: list[Request],
) -> tuple[Request, list[TranscriptEntry]]:
    need, entries = here.run(apply_step, tx, work, entries, news, lost)
    meant[:] = [need]
    return need, entries


def apply_step(
    tx: Transaction, work: RunContext, entries: list[TranscriptEntry], news: Reply, lost: Effect | None = None
) -> tuple[Request, list[TranscriptEntry]]:
    """Apply one step, and return the next request and the updated transcript. Only the process that owns the job may do this.

    `lost` is a tool call that a commit without acknowledgement may have stored as started, and that was certainly not made.
    """
    held = runs.lock_job(tx, work.run)
    if held is None or held.state != "running" or held.owner != work.means.owner:
        return NOT_OWNER, entries
    found = run_store.find_with_halt(tx, work.run.tenant_id, work.run.id)
    if found is None:
        return NOT_OWNER, entries
    run, halted = found
    step = Step(tx, work, held, run, entries, lost)
    if step.over:
        return NOT_OWNER, entries
    if not entries:
        step.append(build_user_message(escape_frames(run.task)))
    record_reply(step, news)
    need: Request | None = Stop("halted") if halted else None
    while need is None:
        need = advance(step)
    need = step.settle(need)
    step.write()
    got_further = news is not None or len(step.entries) > len(entries) or step.run != run
    if got_further and not step.run.ended:  # a step that changed nothing needs no commit
        run_store.save(tx, step.run._replace(updated_at=tx.now))
    return need, step.entries


def record_reply(step: Step, news: Reply) -> None:
    if isinstance(news, ModelAnswered | Summary | Verdict):
        step.held = jobs.clear_failures(step.tx, step.held)
    match news:
        case ModelAnswered():
            record_answer(step, news)
        case ToolReturned():
            tool_calls.accept_result(step, news)
        case Summary(text, call):
            step.charge(call)
            step.say(get_text(step.entries[-1].message))  # text that users have already seen stays in the conversation
            step.withdraw_last()
            step.append(build_runtime_message(prompts.CUT_OFF_PREFIX + escape_frames(text)))
        case Verdict():
            step.charge(news.call)
            gates.apply_verdict(step, news)
        case PermanentFailure(message, code):
            step.end(RunEnd.fail(message, code))
        case RetryableFailure(message, retry_after_s):
            step.handle_transient_failure(message, retry_after_s)


def record_answer(step: Step, answer: ModelAnswered) -> None:
    """Append the model's message to the transcript, and pay for it."""
    step.charge(answer.call)
    step.run = step.run._replace(iterations=step.run.iterations + 1)
    step.append(answer.response, answer.stored)
    if answer.response.tool_calls and answer.response.finish_reason not in ("length", "content_filter", "error"):
        step.say(answer.response.text or "")


def advance(step: Step) -> Request | None:
    """Derive the next action from the last message. Returns None if it was done here and the loop can look again."""
    if step.over or step.held.state != "running":
        return Stop("ended or delayed")
    entry = next(entry for entry in reversed(step.entries) if entry.sent)
    match entry.message:
        case ModelRequest():
            return prepare_model_request(step)
        case ModelResponse() if cut_off.join_last(step):
            return None
        case ModelResponse(finish_reason="content_filter"):
            return step.end_filtered()
        case ModelResponse(finish_reason="error"):
            step.withdraw_last()  # a retried turn asks the model again
            return step.end(RunEnd.fail("The model ended its answer with an error.", "model_error"))
        case ModelResponse(finish_reason="length") as response:
            return cut_off.handle(step, response)
        case ModelResponse(tool_calls=[_, *_]) as response:
            return tool_calls.call_tools(step, entry, response)
        case ModelResponse() as response:
            return gates.check_answer(step, entry, response.text or "")


def prepare_model_request(step: Step) -> AskModel | Stop:
    plan = step.plan()
    left = list_open_items(plan)
    limit = step.limits.extend_iterations(step.run.limit, step.run.iterations, has_open=bool(left))
    if step.run.iterations >= limit:
        return step.give_up(prompts.describe_step_limit(step.run.iterations), "incomplete" if left else "limit")
    step.run = step.run._replace(limit=limit)
    if step.run.hint:
        step.append(build_runtime_message(prompts.render_check_in(step.run.hint)))
        step.run = step.run._replace(hint="")
    return AskModel(prompts.build_turn_context(step.run.task, plan, step.work.mode) if plan else None, len(plan), len(left))


async def fulfil_request(work: RunContext, entries: list[TranscriptEntry], need: Request) -> Reply:
    """Perform the request outside the transaction, and return the reply or the failure."""
    try:
        return await dispatch_request(work, entries, need)
    except ModelFailed as error:
        return RetryableFailure(str(error), error.retry_after_s) if error.passes else PermanentFailure(str(error), error.code)
    except SettingsError as error:
        return PermanentFailure(str(error), error.code)


async def dispatch_request(work: RunContext, entries: list[TranscriptEntry], need: Request) -> Reply:
    match need:
        case AskModel(context=context):
            return await ask_model(work, entries, context)
        case CallTool(effect, tool, arguments):
            with trace_tool_call(work.means.tracer, effect.tool, effect.call_id) as noted:
                execution = work.execution._replace(effect_key=effect.key(work.run.id))
                result = await call_external(tool, arguments, execution)
                noted(to_result_attributes(is_error=result.is_error))
            return ToolReturned(effect, result)
        case Summarise():
            return await assessor.summarise(work.means.models, need)
        case Assess():
            return await assessor.assess(work.means.models, need)
    return None


async def ask_model(work: RunContext, entries: list[TranscriptEntry], context: ModelRequest | None) -> ModelAnswered:
    messages = [*select_window(work.before, entries), *([context] if context else [])]
    voice = AnswerStream(work, len(entries))
    reply = await work.means.models.ask(work.role.tier, messages, work.parameters, voice)
    voice.ended()
    return ModelAnswered(reply.response, reply.call, transcript.encode(reply.response))


async def load_journal(work: RunContext) -> list[TranscriptEntry]:
    return await retry_storage(
        lambda: work.means.database.read(lambda tx: transcript.load(tx, work.run)), f"run {work.run.id}", max_refusals=1
    )


class AnswerStream:
    """Streams a model's text to subscribers as it arrives, without writs.

    Chunks of an answer are numbered, so that a subscriber who joins late can tell which ones are new.
    """

    def __init__(self, work: RunContext, place: int) -> None:
        self.work = work
        self.place = place  # index of the answer in the transcript
        self.parser = WritParser()
        self.chunk_count = 0

    def heard(self, text: str) -> None:
        self.tell(self.parser.feed(to_storable(text)).visible)

    def ended(self) -> None:
        self.tell(self.parser.finish().visible)

    def on_withdrawn(self) -> None:
        self.parser = WritParser()
        if self.chunk_count:
            self.chunk_count = 0
            self.work.means.stream(self.work.run, RESTART_DELTA)

    def tell(self, text: str) -> None:
        if text:
            self.chunk_count += 1
            self.work.means.stream(self.work.run, {"text": text, "n": self.chunk_count, "step": self.place})
