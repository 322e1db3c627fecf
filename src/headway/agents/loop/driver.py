"""The agent loop: look at the last message of a run's transcript and do the one next thing.

Each step is one transaction. It stores the reply to the previous request, does everything that needs no I/O, and ends where the run
needs a model's answer or a tool's result. No state lives only in memory: if the process is killed between any two statements,
driving the same run again resumes it.
"""

import asyncio
from contextlib import ExitStack
from contextvars import Context, copy_context
from functools import partial
from math import inf
from types import ModuleType
from typing import cast

from pydantic_ai.messages import ModelRequest, ModelResponse
from pydantic_ai.models import ModelRequestParameters

from headway.actions.runs import jobs, runs
from headway.agents import tracing
from headway.agents.instructions import guide, prompts
from headway.agents.loop import assessor, broken_answers, compaction, gates, items, step_limits
from headway.agents.loop.calls import proofs, tool_calls
from headway.agents.loop.context import Offer, RunContext, Runtime, keep_tools, load_context
from headway.agents.loop.items import is_active
from headway.agents.loop.requests import (
    RESTART_DELTA,
    AnswerStream,
    AskModel,
    Assess,
    CallTool,
    ChecksRan,
    Compact,
    ContextRefused,
    Deliver,
    Delivered,
    ModelAnswered,
    NoteWritten,
    PermanentFailure,
    Reply,
    Request,
    RetryableFailure,
    RunChecks,
    Stop,
    Summarise,
    Summary,
    ToolReturned,
    Verdict,
)
from headway.agents.loop.step import HALT_STOP, Step, list_open_items, pay_late, paying_for_broken_calls
from headway.agents.models.client import ModelFailed
from headway.agents.tools.external_calls import call_external
from headway.agents.tracing import (
    Attributes,
    SetAttributes,
    Tracer,
    to_plan_attributes,
    to_result_attributes,
    trace_plan,
    trace_run,
    trace_tool_call,
)
from headway.agents.transcripts import transcript
from headway.agents.transcripts.history import to_messages
from headway.agents.transcripts.transcript import TranscriptEntry, attach, build_runtime_message, build_user_message, get_text
from headway.ledger.errors import CommitUncertain, SettingsError, StorageError
from headway.ledger.framing import escape_frames
from headway.ledger.plan_digest import compute_plan_digest
from headway.ledger.run import Effect, Run, RunEnd
from headway.ledger.todo import Todo
from headway.storage.retry import MAX_REFUSALS, StorageRetry, retry_storage
from headway.storage.stores.spending import ModelCall
from headway.storage.transaction import Transaction

NOT_OWNER = Stop("it has ended, or another process continues it")
REMINDER_TOKENS = 20_000  # after this many tokens, the request and the plan are shown again


async def drive(runtime: Runtime, run: Run, *, taken_over: bool = False, answers: float = inf) -> Stop:
    """Drive a run until it ends, must stop here, or has received `answers` model answers."""
    role = runtime.roles.find(run.role)
    await runtime.prepare(role)
    if role.repository and run.answers_turn:
        run = await load_delivery().take_repository(runtime, run, role.repository)
    work, entries = await retry_storage(
        lambda: runtime.database.read(partial(load_run, runtime=runtime, run=run)), f"run {run.id}", max_refusals=1
    )
    reply: Reply = await load_delivery().prepare(runtime, run) if run.repository else None
    if len(entries) <= 1:
        work = await load_guide(work)
    if taken_over:
        runtime.stream(run, RESTART_DELTA)  # subscribers that saw half an answer from another process will not get the rest
    model = runtime.models.names[work.role.tier]
    with trace_run(runtime.tracer, run, model) as note_run, ExitStack() as spans:
        if runtime.tracer.captures_content:
            note_run(tracing.describe_task(run.task, runtime.tracer.redact))
        note: SetAttributes | None = None
        while True:
            request, entries = await commit_step(work, entries, reply)
            if isinstance(request, Stop):
                runtime.nudge()  # wake waiting parents and newly queued jobs
                return request
            if isinstance(request, AskModel):
                if not answers:
                    return Stop("answered")
                answers -= 1
                if request.planned:
                    note = note or spans.enter_context(trace_plan(runtime.tracer, run))
                    note(to_plan_attributes(request.planned, request.remaining))
            async with paying_for_broken_calls(runtime, run.tenant_id, run.id):
                reply = await fulfil_request(work, entries, request)
            note_run(describe_reply(runtime.tracer, reply))  # before the commit, after which a short-lived process may stop


def load_run(tx: Transaction, runtime: Runtime, run: Run) -> tuple[RunContext, list[TranscriptEntry]]:
    context = load_context(tx, runtime, run)
    return context, transcript.load(tx, run, context.attachments)


def describe_reply(tracer: Tracer, reply: Reply) -> Attributes:
    """Return what a reply means for the span of the run: the code of a failure, or the newest answer if content is captured."""
    match reply:
        case PermanentFailure(code=code):
            return {"error.type": code}
        case ModelAnswered(response=response) if tracer.captures_content and not response.tool_calls:
            return tracing.describe_answer(response, tracer.redact)
    return {}


def load_delivery() -> ModuleType:
    """Import the module for work in repositories, which most runs do not need."""
    from headway.agents.loop import delivery  # noqa: PLC0415

    return delivery


async def load_guide(work: RunContext) -> RunContext:
    """Read the workspace's AGENTS.md for a run that begins. Most workspaces have none."""
    workspace, limit = work.execution.workspace, work.execution.result_limit
    return work._replace(guide=await asyncio.to_thread(guide.read, workspace, limit)) if guide.exists(workspace) else work


async def commit_step(context: RunContext, entries: list[TranscriptEntry], reply: Reply) -> tuple[Request, list[TranscriptEntry]]:
    """Commit one step. A failed commit is retried; if it had succeeded after all, the journal shows it.

    After MAX_REFUSALS refused writes the error is raised.
    """
    unpaid = list_calls(reply)
    trace_context = copy_context()  # ledger tools run on another thread but belong to the current trace span
    retry = StorageRetry(f"run {context.run.id}", MAX_REFUSALS)
    last_request: list[Request] = []  # the request that the last attempt would have returned
    lost: Effect | None = None
    while True:
        try:
            attempt = partial(
                apply_in_context,
                trace_context=trace_context,
                context=context,
                entries=entries,
                reply=reply,
                lost=lost,
                last_request=last_request,
            )
            request, entries = await context.runtime.database.write(attempt)
            if request == NOT_OWNER:
                await pay_late(context.runtime, context.run.tenant_id, context.run.id, unpaid)
            return request, entries
        except StorageError as error:
            if isinstance(error, CommitUncertain):
                unpaid = ()  # the step may have charged it already; never charge twice
                lost = next((request.effect for request in last_request if isinstance(request, CallTool)), None)
            await retry.wait(error)
        stored = await load_journal(context)
        if len(stored) > len(entries):
            entries, reply = stored, None


def list_calls(reply: Reply) -> tuple[ModelCall, ...]:
    """Return the model calls of a reply, which have to be paid for."""
    if isinstance(reply, ChecksRan):
        return reply.checked.calls
    call = reply.call if isinstance(reply, ModelAnswered | Summary | NoteWritten | Verdict) else None
    return (call,) if call else ()


def apply_in_context(
    tx: Transaction,
    trace_context: Context,
    context: RunContext,
    entries: list[TranscriptEntry],
    reply: Reply,
    lost: Effect | None,
    last_request: list[Request],
) -> tuple[Request, list[TranscriptEntry]]:
    request, entries = trace_context.run(apply_step, tx, context, entries, reply, lost)
    last_request[:] = [request]
    return request, entries


def apply_step(
    tx: Transaction, context: RunContext, entries: list[TranscriptEntry], reply: Reply, lost: Effect | None = None
) -> tuple[Request, list[TranscriptEntry]]:
    """Apply one step, and return the next request and the updated transcript. Only the process that owns the job may do this.

    `lost` is a tool call that a commit without acknowledgement may have stored as started, and that was certainly not made.
    """
    is_priced = context.models.is_priced(context.role.tier)
    rows = runs.begin_step(tx, context.run, context.scope.turn_id or "", context.runtime.owner, locks_pool=is_priced)
    step = Step(tx, context, rows, entries, lost) if rows else None
    if rows is None or step is None or step.over:
        return NOT_OWNER, entries
    if not entries:
        opening = build_user_message(escape_frames(rows.run.task))
        step.append(attach(opening, context.attachments), transcript.encode(opening))
    if context.guide and len(step.entries) == 1 and (message := guide.build_message(context.guide, context.history)):
        step.append(message)
    if not entries or (step.run.is_main and len(entries) == 1 and reply is None):
        items.begin(step)
    record_reply(step, reply)
    request: Request | None = HALT_STOP if rows.is_halted else None
    while request is None:
        request = advance(step)
    request = step.settle(request)
    step.run = step.run._replace(added_items=step.count_added_items())
    has_progress = reply is not None or len(step.entries) > len(entries) or step.run != rows.run
    step.write(saves_run=has_progress and not step.run.ended)  # a step that changed nothing needs no commit
    return request, step.entries


def record_reply(step: Step, reply: Reply) -> None:
    if isinstance(reply, ModelAnswered | Summary | NoteWritten | Verdict):
        step.job = jobs.clear_failures(step.tx, step.job)
    match reply:
        case ModelAnswered():
            record_answer(step, reply)
        case ToolReturned():
            tool_calls.accept_result(step, reply)
        case Summary(text, call):
            step.charge(call)
            step.say(get_text(step.entries[-1].message))  # text that users have already seen stays in the conversation
            step.withdraw_last()
            step.append(build_runtime_message(prompts.CUT_OFF_PREFIX + escape_frames(text)))
        case NoteWritten():
            compaction.append_note(step, reply)
        case Verdict():
            step.charge(reply.call)
            gates.apply_verdict(step, reply)
        case Delivered():
            load_delivery().accept(step, reply)
        case ChecksRan():
            proofs.record_results(step, reply)
        case _:
            record_failure(step, reply)


def record_failure(step: Step, failure: PermanentFailure | ContextRefused | RetryableFailure | None) -> None:
    match failure:
        case ContextRefused(message):
            step.release()
            compaction.handle_refusal(step, message)
        case PermanentFailure(message, code):
            step.end(RunEnd.fail(message, code))
        case RetryableFailure(message, retry_after_s, code):
            step.handle_transient_failure(message, retry_after_s, code)


def record_answer(step: Step, answer: ModelAnswered) -> None:
    """Append the model's message to the transcript, and pay for it. The last call, which only sums up, is not a step."""
    step.charge(answer.call)
    if not step_limits.find_last_call(step):
        step.run = step.run._replace(iterations=step.run.iterations + 1)
    response = items.correct_paths(step, answer.response) if items.is_active(step) else answer.response
    step.append(response, answer.stored if response is answer.response else "")
    if answer.response.tool_calls and answer.response.finish_reason not in ("length", "content_filter", "error"):
        step.say(answer.response.text or "")


def advance(step: Step) -> Request | None:
    """Derive the next action from the last message. Returns None if it was done here and the loop can look again."""
    if step.over or step.job.state != "running":
        return Stop("ended or delayed")
    entry = next(entry for entry in reversed(step.entries) if entry.sent)
    match entry.message:
        case ModelRequest():
            return prepare_model_request(step)
        case ModelResponse() as response if outcome := step_limits.find_last_call(step):
            return step_limits.end_with_summary(step, outcome, response.text or "")
        case ModelResponse() if broken_answers.join_last(step):
            return None
        case ModelResponse(finish_reason="content_filter"):
            return broken_answers.end_filtered(step, entry.message)
        case ModelResponse(finish_reason="error"):
            return broken_answers.handle_error(step, entry.message)
        case ModelResponse(finish_reason="length") as response:
            return broken_answers.handle_cut_off(step, entry, response)
        case ModelResponse(tool_calls=[_, *_]) as response:
            return tool_calls.call_tools(step, entry, response)
        case ModelResponse() as response:
            return gates.check_answer(step, entry, response.text or "")


def prepare_model_request(step: Step) -> AskModel | Compact | Stop | None:
    """Bring the window up to date: people's messages, the supervisor's hint, the plan if it changed, and room for the answer."""
    if turned := items.steer(step):
        return turned if isinstance(turned, Stop) else None
    if step.run.unread and not broken_answers.awaits_rest(step):
        step.read_messages()
    plan = step.plan()
    open_items = list_open_items(plan)
    is_last = step_limits.apply_limit(step, plan)
    if step.run.hint:
        step.append(build_runtime_message(prompts.render_check_in(step.run.hint)))
        step.run = step.run._replace(hint="")
    if step.turn_id and not is_active(step) and is_context_due(step, plan):
        step.append(prompts.build_turn_context(step.run.task, plan, step.list_messages()))
    return compaction.make_room(step) or AskModel(
        to_messages(step.window), len(plan), len(open_items), is_last, items.list_tools(step)
    )


def is_context_due(step: Step, plan: list[Todo]) -> bool:
    """Whether to show the request and the plan: the plan is not the one shown last, or both are far up in the window."""
    tokens = 0
    for entry in reversed(step.window):
        facts = entry.facts
        if "plan_digest" in facts:
            return facts["plan_digest"] != compute_plan_digest(plan).plan or tokens > REMINDER_TOKENS
        if entry.n == 0 or "request" in facts:
            return bool(plan) or tokens > REMINDER_TOKENS
        tokens += entry.tokens
    return bool(plan)


async def fulfil_request(context: RunContext, entries: list[TranscriptEntry], request: Request) -> Reply:
    """Perform the request outside the transaction, and return the reply or the failure."""
    offer = context.offer  # a failure may change it
    try:
        return await dispatch_request(context, entries, request, offer)
    except ModelFailed as error:
        if error.lacks_tools and offer.has_tools:
            return None  # from now on the model is asked without tools, and the run repeats the request with writs
        if error.is_too_long and isinstance(request, AskModel):
            return ContextRefused(str(error))
        return RetryableFailure(str(error), error.retry_after_s) if error.is_transient else PermanentFailure(str(error), error.code)
    except SettingsError as error:
        return PermanentFailure(str(error), error.code)


async def dispatch_request(work: RunContext, entries: list[TranscriptEntry], request: Request, offer: Offer) -> Reply:
    match request:
        case AskModel():
            return await ask_model(work, entries, request, offer.parameters)
        case CallTool(effect, tool, arguments):
            with trace_tool_call(work.runtime.tracer, effect.tool, effect.call_id) as note:
                execution = work.execution._replace(effect_key=effect.key(work.run.id))
                result = await call_external(tool, arguments, execution)
                note(to_result_attributes(is_error=result.is_error))
                if work.runtime.tracer.captures_content:
                    note(tracing.describe_call(arguments, result.value, work.runtime.tracer.redact))
            return ToolReturned(effect, result)
        case Deliver(end):
            return cast("Reply", await load_delivery().deliver(work.runtime, work.run, end))
        case Summarise():
            return await assessor.summarise(work.runtime.models, request)
        case Compact():
            return await assessor.write_note(work.runtime.models, request)
        case Assess():
            return await assessor.assess(work.runtime.models, request)
        case RunChecks():
            return await proofs.run_checks(work, request)
    return None


async def ask_model(
    work: RunContext, entries: list[TranscriptEntry], request: AskModel, parameters: ModelRequestParameters
) -> ModelAnswered:
    stream = AnswerStream(work, entries)
    try:
        parameters = keep_tools(parameters, request.tools)
        tier, judge = work.role.tier, work.quotations.judge_calls(entries)
        reply = await work.models.ask(tier, request.messages, parameters, stream, use_tools=not request.is_last, judge=judge)
        stream.on_end()
    except asyncio.CancelledError:
        stream.interrupt()
        raise
    finally:
        stream.close()
    return ModelAnswered(reply.response, reply.call, transcript.encode(reply.response))


async def load_journal(context: RunContext) -> list[TranscriptEntry]:
    return await retry_storage(
        lambda: context.runtime.database.read(lambda tx: transcript.load(tx, context.run, context.attachments)),
        f"run {context.run.id}",
        max_refusals=1,
    )
