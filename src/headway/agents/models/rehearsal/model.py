"""The rehearsal model: a rule-based stand-in for an LLM, so that the whole system can be tried without an API key.

It plans with the real tools, performs the steps that the built-in tools can do, says where an LLM would be needed, and drains its
plan. It is stateless: every answer, including the ids of its tool calls, is derived from the messages alone. It reads users' words
and tool results, but never the wording of the runtime's messages: their facts say the same as data.
"""

import re
from typing import Any, Final

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.usage import RequestUsage

from headway.agents.models.local import LocalModel
from headway.agents.models.rehearsal import judging as questions
from headway.agents.models.rehearsal import reading
from headway.agents.models.rehearsal.judging import DISCLAIMER
from headway.agents.models.rehearsal.reading import CannotRun, RehearsalCall, StepOutcome, format_title, to_outcome
from headway.agents.models.rehearsal.request import (
    PLANNING_TOOLS,
    ParsedMessages,
    PlannedCall,
    RehearsalItem,
    RehearsalPlan,
    RehearsalReply,
    hash_key,
)
from headway.agents.tools.toolbox import to_result
from headway.ledger.framing import format_inline
from headway.ledger.tiers import REHEARSAL_MODEL

EXAMPLE_REQUEST: Final = "“Calculate 12*7, then write the result to notes.txt, and then list the files”"
GREETING: Final = f"Hello! I am Headway's stand-in for an LLM: I plan, and use simple tools. Try {EXAMPLE_REQUEST}.\n\n{DISCLAIMER}"
NEEDS_MODEL: Final = StepOutcome("Not done: this needs a real model.", ok=False)
NO_RULE_ANSWER: Final = f"{NEEDS_MODEL.text} Without one I can plan steps, and use simple tools. Try {EXAMPLE_REQUEST}."
STUCK_PREFIX: Final = "The plan does not change whatever I do: "
SMALL_TALK: Final = re.compile(
    r"\s*(?:hi|hello|hey|hallo|good (?:morning|afternoon|evening|day)|thanks?|thank you|bye|goodbye|help|who are you|what are you"
    r"|what can you do|how are you)\b[^\n]{0,40}",
    re.IGNORECASE,
)
TEXT_ONLY: Final = ModelProfile(supports_image_input=False, supports_document_input=False)
PRODUCT_SIGN: Final = re.compile(r"(?<=[\d)])(\*\*?)(?=[-\d(])")


def build_rehearsal_model(pace_s: float = 0) -> LocalModel:
    return LocalModel(REHEARSAL_MODEL, answer, pace_s, TEXT_ONLY)


def answer(messages: list[ModelMessage], parameters: ModelRequestParameters) -> ModelResponse:
    parsed = ParsedMessages(messages, parameters)
    reply = choose_reply(parsed)
    if isinstance(reply, str):
        return build_response(parsed, [TextPart(remove_repeated_disclaimer(parsed, reply))])
    ids = (f"rehearsal-{parsed.next_number}-{index}-{hash_key(planned_call.key)}" for index, planned_call in enumerate(reply))
    return build_response(
        parsed, [ToolCallPart(*planned_call.call, tool_call_id=id_) for planned_call, id_ in zip(reply, ids, strict=True)]
    )


def remove_repeated_disclaimer(parsed: ParsedMessages, reply: str) -> str:
    """Remove the disclaimer if an earlier answer of the conversation has it."""
    earlier = parsed.all[: len(parsed.all) - len(parsed.turn[1])]
    texts = (part.content for message in earlier for part in message.parts if isinstance(part, TextPart))
    return reply.removesuffix(f"\n\n{DISCLAIMER}") if any(DISCLAIMER in text for text in texts) else reply


def build_response(parsed: "ParsedMessages", parts: list[TextPart] | list[ToolCallPart]) -> ModelResponse:
    characters = sum(len(part.content if isinstance(part, TextPart) else part.args_as_json_str()) for part in parts)
    return ModelResponse(
        parts,
        usage=RequestUsage(input_tokens=parsed.size // 4 + 1, output_tokens=characters // 4 + 1),
        model_name=REHEARSAL_MODEL,
        timestamp=parsed.moment,
        provider_name="headway",
        finish_reason="stop" if isinstance(parts[0], TextPart) else "tool_call",
    )


def choose_reply(parsed: ParsedMessages) -> RehearsalReply:
    if "answer" in parsed.facts:
        return questions.assess_answer(parsed.facts["answer"])
    if "cut_off" in parsed.facts:
        return questions.summarise(parsed.facts["cut_off"])
    if "stretch" in parsed.facts:
        return questions.summarise(parsed.facts["stretch"])
    if "last_call" in parsed.facts:
        return sum_up(parsed)
    if form := questions.fill_form(parsed.offered, parsed.facts):
        return [PlannedCall(form, "form")]
    if parsed.plan and (call := plan_added_steps(parsed, parsed.plan)):
        return [call]
    if parsed.offered >= PLANNING_TOOLS:
        return work_on_plan(parsed, parsed.plan) if parsed.plan else plan_steps(parsed)
    if "manage_todos" in parsed.offered:
        return work_on_queue(parsed, parsed.plan) if parsed.plan else queue_steps(parsed)
    return work_without_plan(parsed)


def plan_steps(parsed: ParsedMessages) -> RehearsalReply:
    items = [{"title": format_title(step)} for step in parsed.steps]
    if parsed.added_steps and parsed.last_response and not parsed.find_call("create_todo"):
        return work_without_plan(parsed)  # the request was a single step, which is done
    return create_plan(parsed, RehearsalCall("create_todo", {"items": items})) if len(items) > 1 else work_without_plan(parsed)


def plan_added_steps(parsed: ParsedMessages, plan: RehearsalPlan) -> PlannedCall | None:
    """Add the steps of messages that arrived later to the plan, once."""
    known = {item.title for item in (*plan.open, *plan.ended)}
    titles = [title for step in parsed.added_steps if (title := format_title(step)) not in known]
    items = [{"title": title} for title in titles]
    is_plan = parsed.offered >= PLANNING_TOOLS
    call = RehearsalCall("create_todo", {"items": items}) if is_plan else RehearsalCall("manage_todos", {"add": titles})
    tried = any((made.tool, made.arguments) == tuple(call) for made in parsed.completed_calls)
    return PlannedCall(call, "plan") if titles and not tried and call.tool in parsed.offered else None


def queue_steps(parsed: ParsedMessages) -> RehearsalReply:
    descriptions = [format_title(step) for step in parsed.steps]
    return create_plan(parsed, RehearsalCall("manage_todos", {"add": descriptions})) if descriptions else GREETING


def create_plan(parsed: ParsedMessages, call: RehearsalCall) -> RehearsalReply:
    if earlier_call := parsed.find_call(call.tool):  # it was called before, but there is still no plan
        return append_disclaimer(
            f"The plan could not be made. {to_outcome(earlier_call.tool, earlier_call.arguments, earlier_call.result).text}"
        )
    return [PlannedCall(call, "plan")]


def work_on_plan(parsed: ParsedMessages, plan: RehearsalPlan) -> RehearsalReply:
    if not plan.open:
        return conclude(parsed, plan)
    last = parsed.last_response
    item = None if last and (last.text or "").startswith(STUCK_PREFIX) else find_next_item(parsed, plan)
    if item is None:
        return append_disclaimer(f"{STUCK_PREFIX}{len(plan.open)} still open.")
    end = resolve_step(parsed, parsed.find_step(item), item.id)
    if not parsed.find_call("start_todo", item):
        start = PlannedCall(RehearsalCall("start_todo", {"todoId": item.id}), f"start {item.id}")
        return [start, *([end] if isinstance(end, PlannedCall) else [])]
    if isinstance(end, PlannedCall):
        return [end]
    status = {} if end.ok else {"status": "cancelled"}
    return [PlannedCall(RehearsalCall("complete_todo", {"todoId": item.id, "outcome": end.text, **status}), f"complete {item.id}")]


def sum_up(parsed: ParsedMessages) -> RehearsalReply:
    """Say what was done so far, at the step limit."""
    ended = parsed.plan.ended if parsed.plan else []
    if not ended:
        return append_disclaimer("I reached the step limit before a step was done.")
    return append_disclaimer(render_report([(item.title, StepOutcome("", ok=item.status == "completed")) for item in ended]))


def find_next_item(parsed: ParsedMessages, plan: RehearsalPlan) -> RehearsalItem | None:
    """Choose an item that this turn started, else the first, but not one whose end was just refused."""
    last_call = parsed.find_call("complete_todo")
    refused = [number for number, item in enumerate(plan.open, 1) if last_call and last_call.arguments.get("todoId") == item.id]
    candidates = [item for item in plan.open[sum(refused) :] if may_complete(parsed, item)]
    started = [item for item in candidates if parsed.find_call("start_todo", item)]
    return next(iter((*started, *candidates)), None)


def may_complete(parsed: ParsedMessages, item: RehearsalItem) -> bool:
    """Whether to end an item: once, and again after another one was ended, which may be what its checks wait for."""
    calls = [call for call in parsed.completed_calls if call.tool == "complete_todo"]
    last = max((n for n, call in enumerate(calls) if call.arguments.get("todoId") == item.id), default=-1)
    return last < 0 or any(not to_result(call.result).is_error for call in calls[last + 1 :])


def conclude(parsed: ParsedMessages, plan: RehearsalPlan) -> RehearsalReply:
    last = parsed.last_response
    list_call_ids = [call.tool_call_id for call in last.tool_calls if call.tool_name == "list_todo"] if last else []
    if not list_call_ids and "list_todo" in parsed.offered:
        return [PlannedCall(RehearsalCall("list_todo", {"status": "all"}), "list")]
    listed_items = next(
        (parse_items(completed_call.result) for completed_call in parsed.completed_calls if completed_call.id in list_call_ids), []
    )
    items = listed_items or [(item.status, item.title, "") for item in plan.ended]
    return append_disclaimer(
        render_report([(name, StepOutcome(outcome, ok=status == "completed")) for status, name, outcome in items])
    )


def parse_items(result: Any) -> list[tuple[str, str, str]]:
    items = result.get("items") if isinstance(result, dict) else None
    documents = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return [(str(item.get("status")), str(item.get("title")), str(item.get("outcome") or "")) for item in documents]


def work_on_queue(parsed: ParsedMessages, plan: RehearsalPlan) -> RehearsalReply:
    if not plan.open:
        return append_disclaimer(render_report([(item.title, describe_ended(parsed, item)) for item in plan.ended]))
    item = get_current_item(plan)
    step = parsed.find_step(item)
    end = resolve_step(parsed, step, item.id)
    if isinstance(end, PlannedCall):
        return [end]
    if end is NEEDS_MODEL and SMALL_TALK.fullmatch(step):
        return GREETING
    cancel = RehearsalCall("manage_todos", {"delete": [item.id]})
    if not end.ok and not any((made.tool, made.arguments) == tuple(cancel) for made in parsed.completed_calls):
        return [PlannedCall(cancel, f"cancel {item.id}")]
    return end.text if len(plan.open) > 1 else append_disclaimer(end.text)


def describe_ended(parsed: ParsedMessages, item: RehearsalItem) -> StepOutcome:
    """Describe an item that has ended. The plan does not say why one was cancelled, so its step is looked at again."""
    if item.status == "completed":
        return StepOutcome("")
    end = resolve_step(parsed, parsed.find_step(item), item.id)
    return StepOutcome("", ok=False) if isinstance(end, PlannedCall) else end._replace(ok=False)


def get_current_item(plan: RehearsalPlan) -> RehearsalItem:
    """Return the item in progress, else the first. The runtime judges an answer against the same item."""
    return next((item for item in plan.open if item.status == "in_progress"), plan.open[0])


def work_without_plan(parsed: ParsedMessages) -> RehearsalReply:
    """Make the calls that the steps need, one after the other, then answer. Used when the turn has no plan."""
    keys = [f"{index} {step}" for index, step in enumerate(parsed.steps)]
    last_started = max((index for index, key in enumerate(keys) if parsed.find_call_for(key)), default=0)
    ends: list[tuple[str, StepOutcome]] = []
    for index, (step, key) in enumerate(zip(parsed.steps, keys, strict=True)):
        end = resolve_step(parsed, step, key)
        if isinstance(end, PlannedCall) and index >= last_started:
            return [end]
        ends.append((step, StepOutcome("done earlier.") if isinstance(end, PlannedCall) else end))
    if not ends or (len(ends) == 1 and SMALL_TALK.fullmatch(parsed.request.text)):
        return GREETING
    reply = render_report(ends) if len(ends) > 1 else ends[0][1].text
    if not parsed.request.is_delegated:
        return append_disclaimer(NO_RULE_ANSWER if reply == NEEDS_MODEL.text else reply)
    if all(end.ok for _, end in ends) or "report_outcome" not in parsed.offered:
        return reply
    return [PlannedCall(RehearsalCall("report_outcome", {"summary": reply, "success": False}), "outcome")]


def resolve_step(parsed: ParsedMessages, step: str, key: str) -> StepOutcome | PlannedCall:
    """Return how a step ended, or the tool call that it needs first."""
    if earlier_call := parsed.find_call_for(key):
        return to_outcome(earlier_call.tool, earlier_call.arguments, earlier_call.result)
    call = parsed.find_named_tool(step) or reading.find_call(step, parsed.recent_results)
    if call is None:
        return NEEDS_MODEL
    if isinstance(call, CannotRun):
        return StepOutcome(f"Not done: {call.reason}", ok=False)
    if call.tool not in parsed.offered:
        return StepOutcome(f"Not done: the tool {call.tool} is not available here.", ok=False)
    return PlannedCall(call, key)


def render_report(ends: list[tuple[str, StepOutcome]]) -> str:
    """Render each step with its outcome. Text from elsewhere stays within its line, so that it cannot imitate a writ or a frame."""
    cancelled = sum(not end.ok for _, end in ends)
    head = f"I went through {len(ends)} step{'s' * (len(ends) != 1)}{f', and cancelled {cancelled}' if cancelled else ''}:"
    lines = [
        f"{number}. {format_inline(name)}{'' if end.ok else ' (cancelled)'}{f': {format_inline(end.text)}' if end.text else ''}"
        for number, (name, end) in enumerate(ends, 1)
    ]
    return "\n".join([head, *lines])


def append_disclaimer(text: str) -> str:
    """Append the disclaimer for users, and space out products: Markdown would turn two of `12*7` in a line into italics."""
    spaced = PRODUCT_SIGN.sub(r" \1 ", text)
    return f"{spaced}\n\n{DISCLAIMER}"
