"""The calls of an answer: made in order, within limits, with results that fit the context."""

import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, Final

from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from headway.actions.runs import inbox, jobs
from headway.agents import tracing
from headway.agents.instructions import prompts
from headway.agents.loop import gates, items
from headway.agents.loop.calls import proofs, proposals, writ_calls
from headway.agents.loop.calls.proposals import JSON_ENCODER, encode_arguments, resolve_tool
from headway.agents.loop.context import PLAN_FAMILIES, RESULT_LIMIT
from headway.agents.loop.requests import CallTool, RunChecks, Sleep, Stop, ToolReturned
from headway.agents.loop.step import Step
from headway.agents.models.connections import DROPPED_CALLS, MAX_CALLS, MAX_CALLS_READ
from headway.agents.tools.agents import REPORT_TOOL, ReportOutcome
from headway.agents.tools.execution import record_files
from headway.agents.tools.results import READ_RESULT, USE_TOOL, build_handle, list_callable_names
from headway.agents.tools.toolbox import Pending, Result, Tool, Waits, call_in_transaction, to_result, validate_call
from headway.agents.tracing import to_result_attributes, trace_tool_call
from headway.agents.transcripts.transcript import Facts, TranscriptEntry, get_text, to_metadata
from headway.ledger.attachment import Attachment
from headway.ledger.errors import ChecksRequired, HeadwayError, StorageError
from headway.ledger.framing import escape_frames
from headway.ledger.job import NEVER
from headway.ledger.plan_digest import digest_item
from headway.ledger.run import Effect, EffectState, RunEnd
from headway.ledger.text import to_storable, to_storable_value
from headway.ledger.todo import Todo
from headway.storage.stores import runs as run_store

MAX_ANNOUNCED: Final = 8  # calls in one answer that start work or notify people
ANNOUNCING_TOOLS: Final = ("set_goal", "discover_goal")
TOO_MANY_ANNOUNCED: Final = (
    f"One answer may set or propose {MAX_ANNOUNCED} goals. This one was not; call again if it is still needed."
)


def may_announce_more(earlier: list[Effect]) -> bool:
    """Return whether one more call of an answer may start work or notify people, after these."""
    return sum(effect.tool in ANNOUNCING_TOOLS for effect in earlier) < MAX_ANNOUNCED


def describe_dropped_calls(response: ModelResponse) -> list[UserPromptPart]:
    """Say how many calls of the answer were not made; nothing if all were."""
    count = (response.metadata or {}).get(DROPPED_CALLS, 0)
    if not count:
        return []
    number = f"At least {count}" if count >= MAX_CALLS_READ - MAX_CALLS else str(count)
    calls = "1 call of your answer was" if count == 1 else f"{number} calls of your answer were"
    return [UserPromptPart(f"{calls} not made: one answer may make {MAX_CALLS} calls. Make them again if they are still needed.")]


# The message with the results of tool calls, in the form that the model gets.


SINGLE_ITEM_TOOLS: Final = frozenset(("create_todo", "start_todo", "complete_todo"))  # results name the items that they change
SIMPLE_TOOLS: Final = frozenset(("read_file", "write_file", "edit_file"))
ITEM_RESULTS: Final = frozenset(("start_todo", "list_todo"))  # plan tools whose own result is enough


def build_results_message(step: Step, response: ModelResponse, ended: list[Effect], notices: list[UserPromptPart]) -> ModelRequest:
    """Build the message with the results of a response's calls. The last call of a plan tool shows what is open."""
    plan_calls = [index for index, effect in enumerate(ended) if get_family(step, effect) in PLAN_FAMILIES]
    plan = step.plan() if plan_calls else []
    last = plan_calls[-1] if plan_calls else None
    parts = [
        ToolReturnPart(
            call.tool_name,
            abridge_result(step, effect, plan, shows_plan=index == last) + describe_changes(step, call, effect),
            call.tool_call_id,
            metadata=None if index in plan_calls else {"handle": build_handle(step.run.id, effect)},  # a plan is never shortened
        )
        for index, (call, effect) in enumerate(zip(response.tool_calls, ended, strict=True))
    ]
    pictures = [
        UserPromptPart([f"The image in the result of {effect.tool}:", *list_images(step, effect)])
        for effect in ended
        if effect.images
    ]
    metadata = to_metadata(list_facts(step, plan, [ended[index] for index in plan_calls])) if plan or notices else None
    return ModelRequest([*parts, *notices, *pictures], metadata=metadata)


def list_images(step: Step, effect: Effect) -> list[UserContent]:
    """Return the images of a result, if the model can look at them."""
    images = [Attachment("image", media_type, b64decode(data)) for media_type, data in json.loads(effect.images)]
    if not all(map(step.context.can_read, images)):
        return ["(not shown: this model cannot look at images)"]
    return [BinaryContent(image.data, media_type=image.media_type) for image in images]


def list_facts(step: Step, plan: list[Todo], plan_calls: list[Effect]) -> Facts:
    """Return the plan as facts. Without the digest, the whole plan is shown next: others changed what these calls do not show."""
    facts = prompts.to_plan_facts(plan) if plan else {}
    shown = next((known["item_digests"] for known in iter_facts(step) if "item_digests" in known), {})
    results = "".join(effect.result for effect in plan_calls)
    others = {(str(todo.id), digest_item(todo)) for todo in plan if f'"{todo.uuid}"' not in results}
    if plan and all(effect.tool in SINGLE_ITEM_TOOLS for effect in plan_calls) and not others <= shown.items():
        del facts["plan_digest"]
    return facts


def iter_facts(step: Step) -> Iterator[Facts]:
    """Yield the facts of the run's messages, newest first."""
    return (entry.facts for entry in reversed(step.entries))


def get_family(step: Step, effect: Effect) -> str:
    tool = step.context.tools.get(effect.tool)
    return tool.family if tool else ""


def abridge_result(step: Step, effect: Effect, plan: list[Todo], *, shows_plan: bool) -> str:
    """Return the form of a result that is sent to the model: short ids, no unneeded fields, and cut if it is long."""
    text = effect.result
    tool = step.context.tools.get(effect.tool)
    is_explanation = text.startswith('{"description"')  # use_tool without arguments asked for the parameters
    if effect.state == "succeeded" and tool is not None and tool.abridge is not None and not is_explanation:
        result = tool.abridge(json.loads(text))
        is_whole_plan = effect.tool in ITEM_RESULTS or len(result.get("created", ())) == len(plan)
        next_items = prompts.list_next_items(plan) if shows_plan and not is_whole_plan else []
        text = JSON_ENCODER.encode({**result, "plan": next_items} if next_items else result)
        for todo in plan:
            text = text.replace(f'"{todo.uuid}"', str(todo.id))
    elif effect.state == "succeeded" and step.context.drives_items and (sentence := shorten(effect)):
        text = sentence
    limit = step.context.execution.result_limit
    if len(text) > limit:
        more = f"{len(text) - limit:,} more characters: {READ_RESULT} with handle {build_handle(step.run.id, effect)}"
        text = f"{text[:limit]}\n… ({more}, offset {limit})"
    return escape_frames(text)


def shorten(effect: Effect) -> str:
    """Return the result of a simple tool in plain words. Small models copy the braces and quotes of JSON into what they write."""
    if effect.tool not in SIMPLE_TOOLS:
        return ""
    try:
        result = json.loads(effect.result)
    except ValueError:  # cut off, because it is very long
        return ""
    match effect.tool, result:
        case "read_file", {"content": str(content)} if len(result) == 1:
            return content
        case "write_file" | "edit_file", {"path": str(path)}:
            return f"Wrote {path}."
    return ""


def describe_changes(step: Step, call: ToolCallPart, effect: Effect) -> str:
    """Tell the model if the arguments were changed before the call was made."""
    if effect.arguments == call.args or effect.arguments == encode_arguments(resolve_tool(step, call).arguments):
        return ""
    return f"\n(A person changed the arguments before the call was made: {escape_frames(cut_text(effect.arguments, 2_000))})"


def cut_text(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n… ({len(text) - limit:,} more characters)"


# A run's tool calls. Each is recorded as started before it is made, and is never repeated unless that is safe.


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
        may_announce = may_announce_more(ended)
        outcome = (
            resume_call(step, stored_effects[index])
            if index in stored_effects
            else start_call(step, entry.n, index, call, may_announce=may_announce)
        )
        if isinstance(outcome, Sleep):
            propose_ahead(step, entry.n, index, response, stored_effects)
            if step.proposed or any(effect.state == "proposed" for effect in stored_effects.values()):
                outcome = proposals.limit_wait(step, outcome)
        if not isinstance(outcome, Effect):
            return outcome
        ended.append(outcome)
        if outcome.tool == REPORT_TOOL and outcome.state == "succeeded":
            return end_with_report(step, outcome)
    writ_output = writ_calls.run_writs(step, entry, response.text or "")
    if isinstance(writ_output, Sleep | RunChecks | Stop):
        return writ_output
    notices = [*writ_output, *describe_dropped_calls(response)]
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
    if name in ANNOUNCING_TOOLS and not may_announce:
        return record_result(step, effect, to_result(tool.refuse(TOO_MANY_ANNOUNCED)))
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
    if served := proposals.answer_call(step, effect, tool, arguments):
        return served
    if doubt := items.find_doubt(step, name, arguments):
        return record_result(step, effect, to_result(tool.refuse(doubt)))
    if ruling.decision == "ask":
        return proposals.propose(step, effect, ruling)
    return make_call(step, effect, tool, arguments)


def propose_ahead(step: Step, n: int, current: int, response: ModelResponse, stored_effects: dict[int, Effect]) -> None:
    """Propose the later calls that need approval. Calls are made in order, but people are asked about all of them at once."""
    announced = 0
    for index, call in enumerate(response.tool_calls):
        name, arguments, tool, _ = resolve_tool(step, call)
        announced += name in ANNOUNCING_TOOLS
        is_refused = name in ANNOUNCING_TOOLS and announced > MAX_ANNOUNCED
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
    if tool.changes_ledger:
        return call_ledger_tool(step, effect, tool, arguments)
    if isinstance(tool.run, Waits):
        return start_waiting(step, effect, tool, tool.run, arguments)
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
                    note(tracing.describe_call(arguments, result.value, step.context.runtime.tracer.redact))
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
    if tool is not None and isinstance(tool.run, Waits):
        return poll_call(step, effect, tool, tool.run)
    if tool is not None and tool.changes_ledger:  # it waited for checks
        return call_ledger_tool(step, effect, tool, json.loads(effect.arguments))
    was_never_made = step.lost is not None and (step.lost.n, step.lost.call_index) == (effect.n, effect.call_index)
    if tool is not None and (tool.idempotent or was_never_made):
        return CallTool(effect, tool, json.loads(effect.arguments))
    return record_result(step, effect, Result({"error": INTERRUPTED_MESSAGE}, is_error=True, is_uncertain=True))


def start_waiting(step: Step, effect: Effect, tool: Tool, waits: Waits, arguments: dict[str, Any]) -> Effect | Sleep:
    """Start a call that waits, and store what it waits for, so that after a crash the run resumes waiting."""
    try:
        execution, parsed_arguments = validate_call(tool, arguments, step.context.execution)
        pending = step.tx.attempt(lambda tx: waits.begin(tx, execution, parsed_arguments))
    except StorageError:
        raise  # the transaction is lost, and the step with it
    except HeadwayError as error:
        return record_result(step, effect, to_result(tool.refuse(str(error))))
    waiting_effect = effect._replace(result=json.dumps(pending))
    run_store.save_effect(step.tx, step.run.tenant_id, step.run.id, waiting_effect)
    return poll_call(step, waiting_effect, tool, waits)


def poll_call(step: Step, effect: Effect, tool: Tool, waits: Waits) -> Effect | Sleep:
    pending = Pending(*json.loads(effect.result))
    try:
        execution, parsed_arguments = validate_call(tool, json.loads(effect.arguments), step.context.execution)
        value = waits.poll(step.tx, execution, parsed_arguments, pending)
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
    effect = run_store.load_effects(step.tx, step.run.tenant_id, step.run.id, reply.effect.n)[reply.effect.call_index]
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
