"""A run's tool calls. Each is recorded as started before it is made, and is never repeated unless that is safe."""

import json
from typing import Any, Final

from pydantic_ai.messages import (
    ModelResponse,
    ToolCallPart,
)

from headway.actions import jobs
from headway.actions.people import inbox
from headway.agents import trace_content
from headway.agents.instructions import prompts
from headway.agents.loop import gates
from headway.agents.loop.calls import call_limits, proofs, proposals, replay, writ_calls
from headway.agents.loop.calls.call_arguments import JSON_ENCODER, encode_arguments, resolve_tool
from headway.agents.loop.calls.tool_results import build_results_message, cut_text
from headway.agents.loop.context import RESULT_LIMIT
from headway.agents.loop.items import doubts
from headway.agents.loop.requests import CallTool, RunChecks, Sleep, Stop, ToolReturned
from headway.agents.loop.step import Step
from headway.agents.tools.agents import REPORT_TOOL, ReportOutcome
from headway.agents.tools.execution import record_files
from headway.agents.tools.results import USE_TOOL, list_callable_names
from headway.agents.tools.toolbox import Pending, Result, Tool, call_in_transaction, to_result, validate_call
from headway.agents.tracing import to_result_attributes, trace_tool_call
from headway.agents.transcripts.transcript import TranscriptEntry, get_text
from headway.ledger.errors import ChecksRequired, HeadwayError, StorageError
from headway.ledger.job import NEVER
from headway.ledger.run import Effect, EffectState, RunEnd
from headway.ledger.text import to_storable, to_storable_value
from headway.storage.stores import runs as run_store

STORED_LIMIT: Final = 1_000_000  # characters of a result that are kept and that read_result can return
ITEM_TOOLS: Final = frozenset(("start_todo", "complete_todo"))
INTERRUPTED_MESSAGE: Final = (
    "The effect of this call is unknown: the process was interrupted while it ran, and it was not repeated. "
    "It may have taken effect. Check before you call it again."
)

CallOutcome = Effect | CallTool | RunChecks | Sleep | Stop  # a recorded result, or what the run has to wait for

UNREAD_MESSAGE: Final = "Not ended yet: the user has sent you a message. Read it first, then report the outcome."


def call_tools(step: Step, entry: TranscriptEntry, response: ModelResponse) -> CallTool | RunChecks | Sleep | Stop | None:
    """Make the calls that have no recorded result, one after the other, then append all results together.

    Calls that only work on a plan that does not exist are withdrawn: a small model that sees its own would go on with them.
    """
    if all(call.tool_name in ITEM_TOOLS for call in response.tool_calls) and step.turn_id and not step.plan():
        step.withdraw_last()
        return gates.reject_answer(step, prompts.NO_PLAN, prompts.NO_PLAN_NUDGE, "")
    is_stored = entry.n < step.first_new  # calls in a new response cannot have started
    stored_effects = run_store.load_effects(step.tx, step.run.tenant_id, step.run.id, entry.n) if is_stored else {}
    ended: list[Effect] = []
    for index, call in enumerate(response.tool_calls):
        may_announce = call_limits.may_announce(ended)
        outcome = (
            resume_call(step, stored_effects[index])
            if index in stored_effects
            else start_call(step, entry.n, index, call, may_announce=may_announce)
        )
        if isinstance(outcome, Sleep):
            propose_ahead(step, entry.n, index, response, stored_effects)
        if not isinstance(outcome, Effect):
            return outcome
        ended.append(outcome)
        if outcome.tool == REPORT_TOOL and outcome.state == "succeeded":
            return end_with_report(step, outcome)
    writ_output = writ_calls.run_writs(step, entry, response.text or "")
    if isinstance(writ_output, Sleep | RunChecks | Stop):
        return writ_output
    notices = [*writ_output, *call_limits.describe_dropped_calls(response)]
    step.append(build_results_message(step, response, ended, notices))
    return None


def start_call(step: Step, n: int, index: int, call: ToolCallPart, *, may_announce: bool) -> CallOutcome:
    """Start one call.

    A ledger tool runs here, so that its changes and its result commit together; other tools are only recorded as started.
    """
    name, arguments, tool, on_demand = resolve_tool(step, call)
    effect = Effect(n, index, call.tool_call_id, name, encode_arguments(arguments), "started")
    emit_call(step, effect)
    if tool is None:
        return record_result(step, effect, to_result({"error": describe_unknown_tool(step, name)}))
    if name in call_limits.ANNOUNCING_TOOLS and not may_announce:
        return record_result(step, effect, to_result(tool.refuse(call_limits.TOO_MANY_ANNOUNCED)))
    if on_demand and arguments is None:
        schema = tool.as_json()["input_schema"]
        if schema.get("required"):
            return record_result(step, effect, to_result({"description": tool.description, "parameters": schema}))
        arguments = {}
    if not isinstance(arguments, dict):
        return record_result(step, effect, to_result(tool.refuse("Invalid arguments: they must be one JSON object.")))
    ruling = proposals.rule(step, tool, arguments)
    if ruling.decision == "deny":
        return record_result(step, effect, to_result(tool.refuse(proposals.DENIED_MESSAGE.format(ruling.why))))
    if served := replay.answer_call(step, effect, tool, arguments):
        return served
    if doubt := doubts.find_doubt(step, name, arguments):
        return record_result(step, effect, to_result(tool.refuse(doubt)))
    if ruling.decision == "ask":
        return proposals.propose(step, effect, ruling)
    return make_call(step, effect, tool, arguments)


def propose_ahead(step: Step, n: int, current: int, response: ModelResponse, stored_effects: dict[int, Effect]) -> None:
    """Propose those of the later calls that need approval. Calls are made in order, but people are asked about all at once."""
    announced = 0
    for index, call in enumerate(response.tool_calls):
        name, arguments, tool, _ = resolve_tool(step, call)
        announced += name in call_limits.ANNOUNCING_TOOLS
        is_refused = name in call_limits.ANNOUNCING_TOOLS and announced > call_limits.MAX_ANNOUNCED
        is_known = index <= current or index in stored_effects or bool(step.run.replays)  # a fork proposes calls in their turn
        if is_known or tool is None or not isinstance(arguments, dict) or is_refused:
            continue
        ruling = proposals.rule(step, tool, arguments)
        if ruling.decision == "ask":
            effect = Effect(n, index, call.tool_call_id, name, encode_arguments(arguments), "proposed")
            emit_call(step, effect)
            proposals.propose(step, effect, ruling)
    if step.proposed:
        inbox.notify_about_calls(step.tx, step.proposed)


def resume_proposed(step: Step, effect: Effect) -> CallOutcome:
    """Make a proposed call once it is approved: exactly the approved call, if the policy still allows it."""
    approval = proposals.load_decision(step, effect)
    if approval.is_open:
        return proposals.wait_for(approval)
    effect = effect._replace(state="started", arguments=approval.arguments, started_at=step.tx.now)
    tool = step.context.tools.get(effect.tool)
    if tool is None:
        return record_result(step, effect, to_result({"error": describe_unknown_tool(step, effect.tool)}))
    if refusal := proposals.find_refusal(approval, effect):
        return record_result(step, effect, to_result(tool.refuse(refusal)))
    arguments = json.loads(effect.arguments)
    ruling = proposals.rule(step, tool, arguments)
    if ruling.decision == "deny":
        return record_result(step, effect, to_result(tool.refuse(proposals.DENIED_MESSAGE.format(ruling.why))))
    return make_call(step, effect, tool, arguments)


def make_call(step: Step, effect: Effect, tool: Tool, arguments: dict[str, Any]) -> CallOutcome:
    execution = step.context.execution
    if tool.in_transaction is not None:
        return call_ledger_tool(step, effect, tool, arguments)
    if tool.begin_wait is not None:
        return start_waiting(step, effect, tool, arguments)
    try:
        validate_call(tool, arguments, execution)
    except HeadwayError as error:
        return record_result(step, effect, to_result(tool.refuse(str(error))))
    run_store.save_effect(step.tx, step.run.tenant_id, step.run.id, effect)
    return CallTool(effect, tool, arguments)


def call_ledger_tool(step: Step, effect: Effect, tool: Tool, arguments: dict[str, Any]) -> CallOutcome:
    """Call a tool that works on the ledger. If it would complete a todo with checks, these run first; then it is called again."""
    while True:
        try:
            with trace_tool_call(step.context.runtime.tracer, effect.tool, effect.call_id) as note:
                result = call_in_transaction(tool, arguments, step.context.execution, step.tx)
                note(to_result_attributes(is_error=result.is_error))
                if step.context.runtime.tracer.captures_content:
                    note(trace_content.describe_call(arguments, result.value, step.context.runtime.tracer.redact))
            return record_result(step, effect, result)
        except ChecksRequired as required:
            request = proofs.require(step, effect.n, required)
        if isinstance(request, str):
            return record_result(step, effect, to_result(tool.refuse(request)))
        if request is not None:
            run_store.save_effect(step.tx, step.run.tenant_id, step.run.id, effect)
            return request


def resume_call(step: Step, effect: Effect) -> CallOutcome:
    """Resume a call that started and has no result. Its outcome is unknown, so only a call that is safe to repeat is made again."""
    if effect.state == "proposed":
        return resume_proposed(step, effect)
    if effect.state != "started":
        return effect
    tool = step.context.tools.get(effect.tool)
    if tool is not None and tool.poll is not None:
        return poll_call(step, effect, tool)
    if tool is not None and tool.in_transaction is not None:  # it waited for checks
        return call_ledger_tool(step, effect, tool, json.loads(effect.arguments))
    was_never_made = step.lost is not None and (step.lost.n, step.lost.place) == (effect.n, effect.place)
    if tool is not None and (tool.idempotent or was_never_made):
        return CallTool(effect, tool, json.loads(effect.arguments))
    return record_result(step, effect, Result({"error": INTERRUPTED_MESSAGE}, is_error=True, is_uncertain=True))


def start_waiting(step: Step, effect: Effect, tool: Tool, arguments: dict[str, Any]) -> Effect | Sleep:
    """Start a call that waits, and store what it waits for, so that after a crash the run resumes waiting."""
    begin_wait = tool.begin_wait
    assert begin_wait is not None
    try:
        execution, parsed_arguments = validate_call(tool, arguments, step.context.execution)
        pending = step.tx.attempt(lambda tx: begin_wait(tx, execution, parsed_arguments))
    except StorageError:
        raise  # the transaction is lost, and the step with it
    except HeadwayError as error:
        return record_result(step, effect, to_result(tool.refuse(str(error))))
    waiting_effect = effect._replace(result=json.dumps(pending))
    run_store.save_effect(step.tx, step.run.tenant_id, step.run.id, waiting_effect)
    return poll_call(step, waiting_effect, tool)


def poll_call(step: Step, effect: Effect, tool: Tool) -> Effect | Sleep:
    assert tool.poll is not None
    pending = Pending(*json.loads(effect.result))
    try:
        execution, parsed_arguments = validate_call(tool, json.loads(effect.arguments), step.context.execution)
        value = tool.poll(step.tx, execution, parsed_arguments, pending)
    except StorageError:
        raise
    except HeadwayError as error:
        return record_result(step, effect, to_result(tool.refuse(str(error))))
    if value is not None:
        return record_result(step, effect, to_result(value))
    return Sleep(pending.until if pending.until >= NEVER else pending.until - step.tx.drift)


def accept_result(step: Step, reply: ToolReturned) -> None:
    """Store a tool's result.

    A repeatable call that failed transiently is retried later instead: the run's job is delayed without a slot, and the effect
    stays `started`.
    """
    effect = run_store.load_effects(step.tx, step.run.tenant_id, step.run.id, reply.effect.n)[reply.effect.place]
    if effect.state != "started":  # already stored by a commit whose acknowledgement was lost
        return
    if not reply.result.is_transient:
        record_result(step, effect, reply.result)
    elif step.is_last_attempt or step.tx.now - effect.started_at >= step.limits.tool_retries_ms:
        give_up_call(step, effect, reply.result)
    else:
        step.retry_later(to_storable(reply.result.error))
        return
    step.job = jobs.clear_failures(step.tx, step.job)


def give_up_call(step: Step, effect: Effect, result: Result) -> None:
    """Return the error to the model, and keep the call as a dead letter that the operator can retry or drop."""
    attempts = step.job.attempts + 1
    error = to_storable(result.error)
    run = step.run
    payload = {
        "name": effect.tool,
        "arguments": json.loads(effect.arguments),
        "conversation_id": run.conversation_id,
        "role": run.role,
        "turn_id": run.turn_id,
        "run_id": run.id,
        "effect_key": effect.key(run.id),
    }
    jobs.add_dead_letter(step.tx, step.job, jobs.TOOL, payload, error)
    frequency = "once" if attempts == 1 else f"{attempts} times"
    record_result(step, effect, result._replace(value={"error": f"{error} Tried {frequency}; the call is kept as a dead letter."}))


def record_result(step: Step, effect: Effect, result: Result) -> Effect:
    if effect.tool == REPORT_TOOL and step.run.unread and not result.is_error:
        result = to_result({"error": UNREAD_MESSAGE})
    text = result.value if isinstance(result.value, str) else JSON_ENCODER.encode(result.value)
    stored = to_storable(cut_text(text, STORED_LIMIT))
    state: EffectState = "unknown" if result.is_uncertain else "failed" if result.is_error else "succeeded"
    images = JSON_ENCODER.encode(result.images) if result.images else ""
    ended = effect._replace(state=state, result=stored, images=images)
    run_store.save_effect(step.tx, step.run.tenant_id, step.run.id, ended)
    value = result.value if stored == text and len(text) <= RESULT_LIMIT else cut_text(stored, RESULT_LIMIT)
    files = record_files(step.tx, step.context.execution, effect.tool, result.written, step.run) if result.written.files else {}
    data = {**to_event_data(step, effect), "result": value, "is_error": result.is_error, "state": state, **files}
    step.emit("tool_result", data)
    return ended


def end_with_report(step: Step, effect: Effect) -> Stop:
    report = ReportOutcome.model_validate(to_storable_value(json.loads(effect.arguments)))
    return step.end(RunEnd.report(report.summary, report.data, success=report.success))


def emit_call(step: Step, effect: Effect) -> None:
    """Emit that a call begins. `has_text`: the model's answer also has text, which is the message before its first call."""
    answer = next(entry.message for entry in reversed(step.entries) if entry.n == effect.n)
    has_text = bool(step.parse(get_text(answer)).visible.strip())
    step.emit("tool_call", to_event_data(step, effect) | {"has_text": has_text}, arguments=effect.arguments)


def to_event_data(step: Step, effect: Effect) -> dict[str, Any]:
    """Return what both events of a call say. `step` is the number of the model's answer in the transcript."""
    run = step.run
    call = {"call_id": effect.call_id, "tool": effect.tool}
    return {"run_id": run.id, "depth": run.depth, "step": effect.n, **call, "at": step.tx.now / 1000}


def describe_unknown_tool(step: Step, name: str) -> str:
    if reason := step.context.runtime.toolbox.explain_missing(name):
        return reason
    tools = step.context.offer.parameters.function_tools
    tool_names = ", ".join(known for known in list_callable_names(tools) if known != USE_TOOL)
    return f"There is no tool named {name[:80]!r}. Available: {tool_names}."
