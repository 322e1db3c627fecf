"""A run's tool calls. Each is recorded as started before it is made, and is never repeated unless that is safe."""

import json
from itertools import chain
from typing import Any, Final

from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart

from headway.actions import jobs
from headway.agents.loop import call_limits, writ_calls
from headway.agents.loop.requests import CallTool, Sleep, ToolReturned
from headway.agents.loop.step import Step
from headway.agents.tools.agents import REPORT_TOOL, ReportOutcome
from headway.agents.tools.toolbox import PendingRun, Result, Tool, call_in_transaction, to_result, validate_call
from headway.agents.tracing import to_result_attributes, trace_tool_call
from headway.agents.transcript import TranscriptEntry, to_storable, to_storable_value
from headway.ledger.errors import HeadwayError, StorageError
from headway.ledger.framing import escape_frames
from headway.ledger.run import Effect, EffectState, RunEnd
from headway.storage.stores import runs as run_store

RESULT_LIMIT: Final = 50_000  # characters of a tool's result that are sent to the model
MAX_JSON_DEPTH: Final = 500  # half of Python's recursion limit, and far more than any tool needs
INTERRUPTED_MESSAGE: Final = (
    "The effect of this call is unknown: the process was interrupted while it ran, and it was not repeated. "
    "It may have taken effect. Check before you call it again."
)


def reject_constant(constant: str) -> None:
    """Reject NaN and infinity, which Python's JSON parser accepts and other parsers do not."""
    raise ValueError(constant)


# Shared, because json.loads and json.dumps with options build a new codec on every call.
JSON_DECODER: Final = json.JSONDecoder(parse_constant=reject_constant)
JSON_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)


def call_tools(step: Step, entry: TranscriptEntry, response: ModelResponse) -> CallTool | Sleep | None:
    """Make the calls that have no recorded result, one after the other, then append all results together."""
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
        if not isinstance(outcome, Effect):
            return outcome
        ended.append(outcome)
        if step.over:  # the call reported the run's outcome
            return None
    writ_output = writ_calls.run_writs(step, entry, response.text or "")
    if isinstance(writ_output, Sleep):
        return writ_output
    parts = [ToolReturnPart(effect.tool, escape_frames(effect.result), effect.call_id) for effect in ended]
    step.append(ModelRequest([*parts, *writ_output, *call_limits.describe_dropped_calls(response)]))
    return None


def start_call(step: Step, n: int, index: int, call: ToolCallPart, *, may_announce: bool) -> Effect | CallTool | Sleep:
    """Start one call.

    A ledger tool runs here, so that its changes and its result commit together; other tools are only recorded as started.
    """
    arguments = parse_arguments(call)
    execution = step.context.execution
    tool = step.context.runtime.toolbox.tools.get(call.tool_name)
    encoded_arguments = to_storable(JSON_ENCODER.encode(arguments))
    effect = Effect(n, index, call.tool_call_id, call.tool_name, encoded_arguments, "started")
    step.emit("tool_call", to_event_data(step, effect), arguments=encoded_arguments)
    if tool is None:
        return record_result(step, effect, to_result({"error": describe_unknown_tool(step, call.tool_name)}))
    if effect.tool in call_limits.ANNOUNCING_TOOLS and not may_announce:
        return record_result(step, effect, to_result(tool.refuse(call_limits.TOO_MANY_ANNOUNCED)))
    if not isinstance(arguments, dict):
        return record_result(step, effect, to_result(tool.refuse("Invalid arguments: they must be one JSON object.")))
    if tool.in_transaction is not None:
        with trace_tool_call(step.context.runtime.tracer, effect.tool, effect.call_id) as note:
            result = call_in_transaction(tool, arguments, execution, step.tx)
            note(to_result_attributes(is_error=result.is_error))
        return record_result(step, effect, result)
    if tool.begin_wait is not None:
        return start_waiting(step, effect, tool, arguments)
    try:
        validate_call(tool, arguments, execution)
    except HeadwayError as error:
        return record_result(step, effect, to_result(tool.refuse(str(error))))
    run_store.save_effect(step.tx, step.run.tenant_id, step.run.id, effect)
    return CallTool(effect, tool, arguments)


def resume_call(step: Step, effect: Effect) -> Effect | CallTool | Sleep:
    """Resume a call that started and has no result. Its outcome is unknown, so only a call that is safe to repeat is made again."""
    if effect.state != "started":
        return effect
    tool = step.context.runtime.toolbox.tools.get(effect.tool)
    if tool is not None and tool.poll is not None:
        return poll_call(step, effect, tool)
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
    pending = PendingRun(*json.loads(effect.result))
    try:
        execution, parsed_arguments = validate_call(tool, json.loads(effect.arguments), step.context.execution)
        value = tool.poll(step.tx, execution, parsed_arguments, pending)
    except StorageError:
        raise
    except HeadwayError as error:
        return record_result(step, effect, to_result(tool.refuse(str(error))))
    return Sleep(pending.until) if value is None else record_result(step, effect, to_result(value))


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
    text = result.value if isinstance(result.value, str) else JSON_ENCODER.encode(result.value)
    stored = to_storable(shorten_result(text))
    state: EffectState = "unknown" if result.is_uncertain else "failed" if result.is_error else "succeeded"
    ended = effect._replace(state=state, result=stored)
    run_store.save_effect(step.tx, step.run.tenant_id, step.run.id, ended)
    value = result.value if stored == text else stored
    step.emit("tool_result", {**to_event_data(step, effect), "result": value, "is_error": result.is_error, "state": state})
    if effect.tool == REPORT_TOOL and state == "succeeded":
        report = ReportOutcome.model_validate(to_storable_value(json.loads(effect.arguments)))
        step.end(RunEnd.report(report.summary, report.data, success=report.success))
    return ended


def to_event_data(step: Step, effect: Effect) -> dict[str, Any]:
    return {"run_id": step.run.id, "call_id": effect.call_id, "tool": effect.tool}


def describe_unknown_tool(step: Step, name: str) -> str:
    tool_names = ", ".join(tool.name for tool in step.context.parameters.function_tools)
    return f"There is no tool named {name[:80]!r}. Available: {tool_names}."


def parse_arguments(call: ToolCallPart) -> Any:
    """Parse a call's arguments. Returns the raw text if it is not valid JSON."""
    if not isinstance(call.args, str):
        return call.args or {}
    try:
        arguments = JSON_DECODER.decode(call.args) if call.args.strip() else {}
    except (ValueError, RecursionError):
        return call.args
    return call.args if is_too_deep(arguments) else arguments


def is_too_deep(value: Any) -> bool:
    """Return whether JSON is nested so deeply that encoding it could hit the recursion limit, which depends on the call stack."""
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
        below = [node.values() if isinstance(node, dict) else node for node in level if isinstance(node, dict | list)]
        level = list(chain.from_iterable(below))
        if not level:
            return False
    return True


def shorten_result(text: str) -> str:
    if len(text) <= RESULT_LIMIT:
        return text
    return f"{text[:RESULT_LIMIT]}\n… ({len(text) - RESULT_LIMIT:,} more characters)"
